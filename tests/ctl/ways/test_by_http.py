"""What the way over HTTP makes of a server that breaks its answers off."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import closing

import pytest

from mq.client.blocking import connections
from mq.ctl.ways.by_http import HttpAccess
from mq.ctl.ways.connect import ClientCredentials
from mq.errors import CommandFailed, ExitCode
from mq.lines.ndjson import Line
from mq.names import MessageId, QueueName
from tests.support.breaking import Breaking
from tests.support.descriptors import open_descriptors
from tests.support.parting import Parting

_HEAD = (
    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/x-ndjson\r\n"
    "Content-Length: {}\r\n\r\n"
)
_NOTHING = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
"""The server closes after each answer. Without a word of that, the next request might meet the end.
"""


def _lines(*ids: str) -> bytes:
    known = {"state": "ready", "published_at": "2026-11-27T06:00:00.000000Z", "body": "body"}
    return b"".join(json.dumps({"id": each, **known}).encode() + b"\n" for each in ids)


def _answer(body: bytes, length: int) -> bytes:
    return _HEAD.format(length).encode() + body


def _peek(answers: list[bytes]) -> list[str]:
    """Return the ids that a peek shows."""
    with (
        closing(Breaking(answers)) as server,
        closing(HttpAccess(server.url, ClientCredentials())) as access,
    ):
        return [message.message_id for message in access.peek(QueueName("orders"), 10)]


@pytest.mark.parametrize("cut", [0, 1, 30])
def test_a_peek_that_is_cut_off_goes_on_behind_the_last_message(cut: int) -> None:
    """The server closes a connection that is not read for a minute, as behind a pager."""
    whole, rest = _lines("a", "b", "c"), _lines("c")
    first = _answer(_lines("a", "b") + rest[:cut], len(whole))

    assert _peek([first, _answer(rest, len(rest)), _NOTHING]) == ["a", "b", "c"]


def test_a_peek_that_gets_no_further_ends_and_leaves_nothing_open() -> None:
    whole, before = _lines("a"), open_descriptors()

    # Its traceback keeps alive what read the answer.
    with pytest.raises(CommandFailed, match="in the middle of an answer") as failed:
        _peek([_answer(whole[:5], len(whole))])

    assert open_descriptors() == before
    assert failed.value.exit_code is ExitCode.UNAVAILABLE


ORDERS = QueueName("orders")
_PUBLISHED = b"HTTP/1.1 201 Created\r\nX-Message-Id: a\r\nContent-Length: 0\r\n\r\n"


def _publish(access: HttpAccess, message_id: MessageId | None = None) -> None:
    access.publish(ORDERS, io.BytesIO(b"one"), Line(b"one", message_id))


def _publish_batch(access: HttpAccess) -> None:
    access.publish_batch(ORDERS, b"")


@pytest.mark.parametrize(
    "call",
    [
        lambda access: access.peek_behind(ORDERS, MessageId("a"), 5),
        lambda access: access.remove(ORDERS, MessageId("a"), None),
        lambda access: _publish(access, MessageId("a")),
    ],
    ids=["tail", "ack", "send --id"],
)
def test_what_meets_the_end_of_an_idle_connection_is_sent_again(
    call: Callable[[HttpAccess], object],
) -> None:
    answer = _PUBLISHED.replace(b"201", b"202")
    with (
        closing(Parting(answer)) as server,
        closing(HttpAccess(server.url, ClientCredentials())) as access,
    ):
        call(access)
        call(access)

        assert server.connections == 2


@pytest.mark.parametrize(
    ("done", "call"),
    [
        (202, lambda access: access.remove(ORDERS, MessageId("a"), None)),
        (202, lambda access: access.remove(ORDERS, MessageId("a"), 7)),
        (204, lambda access: access.release(ORDERS, MessageId("a"), 7)),
    ],
    ids=["ack", "ack of a lease", "release"],
)
def test_what_the_first_try_has_done_is_done(
    done: int, call: Callable[[HttpAccess], object]
) -> None:
    """A server that is killed may have removed the message, and says nothing."""
    problem = b'{"type": "urn:mq:problem:message-not-found", "title": "gone", "status": 404}'
    gone = _answer(problem, len(problem)).replace(b"200 OK", b"404 Not Found", 1)
    with (
        closing(Parting(_PUBLISHED.replace(b"201", str(done).encode()), then=gone)) as server,
        closing(HttpAccess(server.url, ClientCredentials())) as access,
    ):
        call(access)
        call(access)

        assert server.connections == 2
        with pytest.raises(CommandFailed):
            call(access)


@pytest.mark.parametrize("call", [_publish, _publish_batch])
def test_what_might_be_done_twice_takes_no_connection_that_was_idle(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[HttpAccess], object]
) -> None:
    """`tail -f log | mqctl send orders --lines` may be idle for as long as its server waits."""
    with (
        closing(Parting(_PUBLISHED)) as server,
        closing(HttpAccess(server.url, ClientCredentials())) as access,
    ):
        call(access)
        with pytest.raises(CommandFailed, match="does not answer"):
            call(access)
        call(access)
        monkeypatch.setattr(connections, "FRESH_SECONDS", 0.0)
        call(access)

        assert server.connections == 3
