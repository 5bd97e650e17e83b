"""Both clients make the same of connections that break, and try as often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from mq.client import ClientClosed, ClientError, UnexpectedAnswer
from tests.support.breaking import Breaking
from tests.support.faces import Loop, open_client

COUNTS = b'{"queue":"orders","ready":1,"leased":2,"delayed":3,"oldest_age_seconds":4.5}'
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(COUNTS), COUNTS)
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}"
BAD = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}"
INTERIM = b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
UNTIL_IT_CLOSES = b"HTTP/1.0 200 OK\r\n\r\n" + COUNTS
IN_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (
    len(COUNTS),
    COUNTS,
)
SILENCE = b""

AT_ONCE = {
    "closed without an answer": [b""],
    "cut within the head": [WHOLE[:20]],
    "cut within the body": [WHOLE[:-10]],
    "not HTTP": [b"220 mail.example ESMTP\r\n"],
    "refused": [BAD],
    "busy": [BUSY],
    "without an end": [UNTIL_IT_CLOSES],
    "cut within a chunk": [IN_CHUNKS[:-20]],
}
"""What is answered before the connection is closed, when nothing is tried again."""

TRIED_AGAIN = {
    "closed without an answer": [b"", WHOLE],
    "cut within the head": [WHOLE[:20], WHOLE],
    "cut within the body": [WHOLE[:-10], WHOLE],
    "busy": [BUSY, WHOLE],
    "busy, then closed": [BUSY, b"", WHOLE],
    "not HTTP, which does not heal": [b"220 mail.example ESMTP\r\n", WHOLE],
    "refused, which does not heal": [BAD, WHOLE],
}


pytestmark = pytest.mark.usefixtures("hurried")


class CallOutcome(NamedTuple):
    """What a call came to, without its words: each library has its own for the same failure."""

    kind: str
    is_unsent: object
    is_cut_off: object
    requests: int


@pytest.fixture
def breaking() -> Iterator[Callable[..., Breaking]]:
    """`breaking([...])` starts a server that answers so; it ends with the test."""
    started: list[Breaking] = []

    def start(answers: list[bytes], **then: bool) -> Breaking:
        started.append(Breaking(answers, **then))
        return started[-1]

    yield start
    for server in started:
        server.close()


def outcome(kind: str, loop: Loop, server: Breaking, **settings: float) -> CallOutcome:
    with open_client(kind, loop, server.url, **settings) as mq:
        try:
            name = repr(mq.queue("orders").counts())
            return CallOutcome(name, None, None, server.requests)
        except ClientError as error:
            unsent, cut = getattr(error, "is_unsent", None), getattr(error, "is_cut_off", None)
            return CallOutcome(type(error).__name__, unsent, cut, server.requests)


@pytest.mark.parametrize("name", AT_ONCE)
def test_both_fail_alike(loop: Loop, breaking: Callable[..., Breaking], name: str) -> None:
    outcomes = {
        outcome(kind, loop, breaking(AT_ONCE[name]), retry_seconds=0)
        for kind in ("blocking", "async")
    }

    assert len(outcomes) == 1
    assert {each.requests for each in outcomes} == {1}


@pytest.mark.parametrize("name", TRIED_AGAIN)
def test_both_try_again_as_often(loop: Loop, breaking: Callable[..., Breaking], name: str) -> None:
    outcomes = {
        outcome(kind, loop, breaking(TRIED_AGAIN[name]), retry_seconds=30)
        for kind in ("blocking", "async")
    }

    assert len(outcomes) == 1
    heals = "does not heal" not in name
    assert {each.requests for each in outcomes} == {len(TRIED_AGAIN[name]) if heals else 1}


def test_both_pass_over_interim_answers(loop: Loop, breaking: Callable[..., Breaking]) -> None:
    """A proxy sends them (103), or a server that takes long (102)."""
    for kind in ("blocking", "async"):
        with open_client(kind, loop, breaking([INTERIM + WHOLE]).url, retry_seconds=0) as mq:
            assert mq.queue("orders").counts().leased == 2


def test_interim_answers_without_end_are_none(
    loop: Loop, breaking: Callable[..., Breaking]
) -> None:
    outcomes = {
        outcome(kind, loop, breaking([answer], repeats=True), retry_seconds=0, timeout_seconds=0.3)
        for kind in ("blocking", "async")
        for answer in (INTERIM, b"HTTP/1.1 100 Continue\r\n\r\n")
    }

    assert outcomes == {CallOutcome("NoAnswer", False, False, 1)}


def test_half_a_body_passes_for_a_whole_one_with_neither(
    loop: Loop, breaking: Callable[..., Breaking]
) -> None:
    """A proxy may send a body in chunks, but not one that ends where the connection does."""
    for kind in ("blocking", "async"):
        server = breaking([IN_CHUNKS, UNTIL_IT_CLOSES])
        with open_client(kind, loop, server.url, retry_seconds=60) as mq:
            assert mq.queue("orders").counts().leased == 2
            with pytest.raises(UnexpectedAnswer, match="let the proxy in between keep Content-Len"):
                mq.queue("orders").counts()


def test_a_lease_that_a_proxy_has_changed_is_no_message(
    loop: Loop, breaking: Callable[..., Breaking]
) -> None:
    """Its body may be compressed too, and none of its leases would be taken."""
    head = (
        b'HTTP/1.1 200 OK\r\nX-Message-Id: 1\r\nETag: W/"0f9e8d7c6b5a4938"\r\nX-Published-At: '
        b"2026-11-21T08:08:19.313206Z\r\nX-Visible-At: 2026-11-21T08:09:19.313206Z\r\n"
        b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b"
    )
    for kind in ("blocking", "async"):
        with (
            open_client(kind, loop, breaking([head]).url) as mq,
            pytest.raises(UnexpectedAnswer, match=r'ETag W/"0f9e8d7c6b5a4938", .* compress'),
        ):
            mq.queue("orders").receive()


@pytest.mark.parametrize("answered", [SILENCE, WHOLE[:-10]], ids=["nothing", "half"])
def test_both_give_up_a_silent_server(
    loop: Loop, breaking: Callable[..., Breaking], answered: bytes
) -> None:
    outcomes = {
        outcome(
            kind, loop, breaking([answered], holds=True), retry_seconds=0, timeout_seconds=0.2
        )
        for kind in ("blocking", "async")
    }  # fmt: skip

    assert outcomes == {CallOutcome("NoAnswer", False, answered != SILENCE, 1)}


def test_both_know_when_nothing_was_sent(loop: Loop, breaking: Callable[..., Breaking]) -> None:
    gone = breaking([WHOLE])
    gone.close()

    outcomes = {
        outcome(kind, loop, gone, retry_seconds=0) for kind in ("blocking", "async")
    }  # fmt: skip

    assert outcomes == {CallOutcome("NoAnswer", True, False, 0)}


def test_a_closed_client_says_so(loop: Loop) -> None:
    for kind in ("blocking", "async"):
        with open_client(kind, loop, "http://127.0.0.1:1") as mq:
            queue = mq.queue("orders")

        with pytest.raises(ClientClosed, match="the client is closed; make another one"):
            queue.counts()


def test_what_is_no_server_of_mq_has_a_fact_and_a_way_out(
    loop: Loop, breaking: Callable[..., Breaking]
) -> None:
    for kind in ("blocking", "async"):
        server = breaking([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"])
        with (
            open_client(kind, loop, server.url, retry_seconds=0) as mq,
            pytest.raises(UnexpectedAnswer) as caught,
        ):
            mq.queue("orders").counts()

        assert str(caught.value) == f"{caught.value.fact}; look at the URL"
