"""What a server answers, as `mqctl` shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from io import BytesIO
from typing import Any, NoReturn

from mq.config import DEFAULT_CONTENT_TYPE
from mq.ctl.access import Counts, Message
from mq.errors import CommandFailed, ExitCode, InvalidRequest
from mq.ndjson import body_of


def counts_of(document: Mapping[str, Any]) -> Counts:
    return Counts(*(document[name] for name in Counts._fields))


def message_of(answer: HTTPResponse) -> Message:
    """What the headers say of a message; the body is still to be read."""
    count, lease = answer.headers.get("X-Receive-Count"), answer.headers.get("ETag")
    return Message(
        message_id=header_of(answer, "X-Message-Id"),
        state=answer.headers.get("X-State", "leased"),
        lease=None if lease is None else lease.strip('"'),
        receive_count=None if count is None else int(count),
        content_type=answer.headers.get("Content-Type", DEFAULT_CONTENT_TYPE),
        published_at=header_of(answer, "X-Published-At"),
        visible_at=answer.headers.get("X-Visible-At"),
        length=int(header_of(answer, "Content-Length")),
        body=AnswerBody(answer),
        is_damaged=answer.headers.get("X-Damaged") == "yes",
    )


def message_in(line: bytes) -> Message:
    """A line of an answer in ndjson."""
    try:
        found = json.loads(line)
        body = body_of(found)
        return Message(
            message_id=found["id"],
            state=found["state"],
            lease=None,
            receive_count=found.get("receive_count"),
            content_type=found.get("content_type", DEFAULT_CONTENT_TYPE),
            published_at=found["published_at"],
            visible_at=found.get("visible_at"),
            length=len(body),
            body=BytesIO(body),
            is_damaged=found.get("damaged", False),
        )
    except (ValueError, LookupError, TypeError, AttributeError, InvalidRequest):
        not_of_mq("broke off, or has a line that is no message")


def header_of(answer: HTTPResponse, name: str) -> str:
    value = answer.headers.get(name)
    if value is None:
        not_of_mq(f"has no {name}")
    return value


def not_of_mq(what: str) -> NoReturn:
    raise CommandFailed(
        ExitCode.UNAVAILABLE,
        f"the answer {what}: it is not from a server of MQ; name another --url",
    )


class AnswerBody:
    """The body of an answer. One that breaks its framing ends there; its length tells."""

    def __init__(self, answer: HTTPResponse) -> None:
        self._answer = answer

    def read(self, size: int = -1, /) -> bytes:
        try:
            # To http.client -1 is the end of the connection, None that of the answer.
            return self._answer.read(None if size < 0 else size)
        except HTTPException:
            return b""

    def readline(self) -> bytes:
        try:
            return self._answer.readline()
        except HTTPException:
            return b""

    def close(self) -> None:
        self._answer.close()
