"""Properties and content types of the messages of runs: the body tells which ones a message must
have."""

from __future__ import annotations

import zlib

from mq.names import MessageId
from mq.properties import Properties
from mq.spool.message.trailer import pack_trailer
from mq.store.publishing.publish import Draft

WITH_PROPERTIES = b"with properties: "


def properties_of(body: bytes) -> dict[str, str]:
    """Those of a message, which its body tells."""
    if not body.startswith(WITH_PROPERTIES):
        return {}
    return {"x-meta-sum": f"{zlib.crc32(body):08x}", "ce-id": "1" * (len(body) % 7)}


def type_of(body: bytes) -> str | None:
    """The content type of a message, which only those with properties have."""
    return f"text/{zlib.crc32(body):08x}" if body.startswith(WITH_PROPERTIES) else None


def draft_of(body: bytes, own_id: MessageId | None, delay_ns: int) -> Draft:
    """The message as its producer sends it."""
    crc32, trailer = zlib.crc32(body), pack_trailer(properties_of(body))
    return Draft(len(body), crc32, type_of(body), body, -1, own_id, delay_ns, trailer)


def body_with_all(body: bytes, properties: Properties, content_type: str | None) -> bytes:
    """The body; another one if properties or type are not those that belong to it."""
    is_whole = (properties, content_type) == (properties_of(body), type_of(body))
    return body if is_whole else b"with others: " + body
