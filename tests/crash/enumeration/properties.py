"""Properties of the messages of runs: the body tells which ones a message must have."""

from __future__ import annotations

import zlib

from mq.properties import Properties

WITH_PROPERTIES = b"with properties: "


def properties_of(body: bytes) -> dict[str, str]:
    """Those of a message, which its body tells."""
    if not body.startswith(WITH_PROPERTIES):
        return {}
    return {"x-meta-sum": f"{zlib.crc32(body):08x}", "ce-id": "1" * (len(body) % 7)}


def body_and_properties(body: bytes, properties: Properties) -> bytes:
    """The body; another one if the properties are not those that belong to it."""
    return body if properties == properties_of(body) else b"with others: " + body
