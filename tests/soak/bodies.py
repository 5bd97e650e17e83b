"""Bodies that are known again, and the queues that they are in.

A body follows from its token, with which it begins, and so does whether it has a property.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.crash.cuts.bodies import token_of
from tests.crash.load import LoadAnswer
from tests.soak.history import Given

SINGLES = "orders"
BULK = "bulk"
ORDERED = frozenset({SINGLES, BULK})
"""No process but the server publishes to these or receives from them."""

DRAFTS = "drafts"
DYING = "dying"
DEAD = "dying.dead"
LETTERS = "letters"
IDLE = "idle"
"""Nobody publishes to this one."""

QUEUES = (SINGLES, BULK, DRAFTS, DYING, DEAD, LETTERS, IDLE)
PROMPT = frozenset({SINGLES, BULK, LETTERS})
"""From these messages are neither purged nor moved."""

MAX_RECEIVES = 3

PROPERTY = "x-meta-token"
_ATTRIBUTES = {"x-meta-sqs-attributes"}
"""A letter's, which is looked at where letters are received."""


def text_of(token: str) -> str:
    return token + "." * (int(token[:2], 16) % 40)


def property_of(token: str) -> dict[str, str]:
    """The properties that a message of this token has."""
    return {PROPERTY: token[::-1]} if token[0] < "4" else {}


def token_in(body: bytes) -> str | None:
    """The token of a whole body, None for a torn one."""
    token = body[:32].decode("ascii", "replace")
    try:
        is_text = body == text_of(token).encode()
    except ValueError:
        is_text = False
    return token if is_text else token_of(body)


def with_properties(token: str | None, properties: dict[str, str]) -> str | None:
    """The token, or None if the message lacks what belongs to it."""
    if token is None:
        return None
    found = {name: value for name, value in properties.items() if name == PROPERTY}
    return token if found == property_of(token) else None


def given_of(answer: LoadAnswer) -> Given:
    token = with_properties(token_in(answer.body), answer.headers)
    return Given(answer.message_id, token, answer.headers["etag"])


def given_in(line: dict[str, Any]) -> Given:
    """The message of a line, as a receive of several has it."""
    text = line.get("body")
    body = base64.b64decode(line["body_base64"]) if text is None else text.encode()
    token = token_in(body)
    if not _ATTRIBUTES & line.get("properties", {}).keys():
        token = with_properties(token, line.get("properties", {}))
    return Given(line["id"], token, f'"{line["lease"]}"' if "lease" in line else "")


def line_of(token: str) -> str:
    return json.dumps({"body": text_of(token), "properties": property_of(token)})
