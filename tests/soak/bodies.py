"""Bodies that are known again, and the queues that they are in.

A body follows from its token, with which it begins, and so does whether it has a property.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from mq.names import DEAD_SUFFIX, QueueName
from mq.spool.queue.queue_settings import DeadLetterRule
from tests.crash.cuts.bodies import token_of
from tests.crash.load import LoadAnswer
from tests.soak.history import UNCLEAR, Given

SINGLES = "orders"
BULK = "bulk"
DRAFTS = "drafts"
DYING = "dying"
DEAD = "dying.dead"
LETTERS = "letters"
IDLE = "idle"
"""Nobody publishes to this one."""

COUNTER, BILLS, KITCHEN, ENDED = "counter", "bills", "kitchen", "ended"
READERS = (BILLS, KITCHEN)
"""They get a copy of all that is published to COUNTER, and share their dead letters, in ENDED. A
copy that is dead there keeps another one with its id out, which goes to the reader's own."""

COPIED = (COUNTER, *READERS, ENDED, *(f"{each}.dead" for each in READERS))
BRIEF = "brief"

STOVE, TRAYS, TABLES = HANDED = "stove", "trays", "tables"
"""Between these messages are handed over, with copies."""

STALL = "stall"
"""It is deleted and made again."""

QUEUES = (
    SINGLES, BULK, DRAFTS, DYING, DEAD, LETTERS, IDLE, BRIEF, *HANDED, STALL, *reversed(COPIED),
)  # fmt: skip
ORDERED = frozenset({SINGLES, BULK, COUNTER})
"""No process but the server publishes to these or receives from them."""

PROMPT = frozenset({SINGLES, BULK, LETTERS, COUNTER})
"""From these messages are neither purged nor moved."""

_NAMED = frozenset({*COPIED, *HANDED, STALL})
"""Their messages are named by their queues as well, like copies."""

_RULE = DeadLetterRule(3, (QueueName(ENDED),))
DEAD_LETTERS = {DYING: DeadLetterRule(3, (QueueName(DEAD),))} | {
    each: _RULE._replace(queues=(*_RULE.queues, QueueName(f"{each}.dead"))) for each in READERS
}
TTL = {BRIEF: 2.0}
SETTINGS = {
    DYING: "max-receives=3",
    **dict.fromkeys(READERS, f"max-receives=3&dead-letters={ENDED}"),
    COUNTER: f"also={','.join(READERS)}",
    BRIEF: f"ttl={TTL[BRIEF]}",
}

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


def given_from(queue: str, line: dict[str, Any]) -> Given:
    """The message of a line that came from a queue."""
    given = given_in(line)
    home = UNCLEAR if queue == ENDED else queue.removesuffix(DEAD_SUFFIX)
    return copy_in(line.get("dead_from", home), given) if queue in _NAMED else given


def copy_in(queue: str, given: Given) -> Given:
    """A copy, named by the queue that it was sent to as well: all of a message have its id, and the
    same body."""
    message_id, token, lease = given
    return Given(message_id and f"{queue}/{message_id}", token and f"{queue}/{token}", lease)


def id_of(given: Given) -> str:
    """The id by which the server knows a message, or a copy."""
    return given.message_id.rpartition("/")[2]


def line_of(token: str, **members: str) -> str:
    return json.dumps({"body": text_of(token), "properties": property_of(token), **members})
