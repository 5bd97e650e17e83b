"""What a server answers, as `mqctl` shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http.client import HTTPException, HTTPResponse, IncompleteRead
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
    message_id = header_of(answer, "X-Message-Id")
    length = int(header_of(answer, "Content-Length"))
    return Message(
        message_id=message_id,
        state=answer.headers.get("X-State", "leased"),
        lease=None if lease is None else lease.strip('"'),
        receive_count=None if count is None else int(count),
        content_type=answer.headers.get("Content-Type", DEFAULT_CONTENT_TYPE),
        published_at=header_of(answer, "X-Published-At"),
        visible_at=answer.headers.get("X-Visible-At"),
        length=length,
        body=AnswerBody(answer, message_id, length),
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
        not_of_mq("has a line that is no message")


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


def whole(answer: HTTPResponse) -> bytes:
    """The body of an answer. Raises CommandFailed if it breaks off."""
    try:
        return answer.read()
    except (OSError, HTTPException) as error:
        broke_off(error)


def lines_of(answer: HTTPResponse) -> Iterator[bytes]:
    """The lines of an answer, one by one. Raises CommandFailed if it breaks off."""
    try:
        while line := answer.readline():
            yield line
    except (OSError, HTTPException) as error:
        broke_off(error)
    if answer.length:
        broke_off(None)


def broke_off(error: Exception | None) -> NoReturn:
    raise CommandFailed(
        ExitCode.UNAVAILABLE,
        "the connection was closed within an answer of the server; what was asked for may be done "
        "or not",
    ) from error


class AnswerBody:
    """The body of a message in an answer, read in pieces."""

    def __init__(self, answer: HTTPResponse, message_id: str, length: int) -> None:
        self._answer = answer
        self._message_id = message_id
        self._length = length
        self._read = 0

    def read(self, size: int = -1, /) -> bytes:
        """Raises CommandFailed if the body ends early: half of it must not pass for all."""
        error: Exception | None = None
        try:
            # To http.client -1 is the end of the connection, None that of the answer.
            chunk = self._answer.read(None if size < 0 else size)
        except IncompleteRead as incomplete:
            chunk, error = incomplete.partial, incomplete
        except (OSError, HTTPException) as broken:
            chunk, error = b"", broken
        self._read += len(chunk)
        if error is not None or (size != 0 and not chunk and self._read < self._length):
            raise CommandFailed(
                ExitCode.UNAVAILABLE,
                f"the body of message {self._message_id} ended after {self._read} of "
                f"{self._length} bytes; if it was received, it comes back when its lease ends",
            ) from error
        return chunk

    def close(self) -> None:
        self._answer.close()
