"""Tokens that change while requests are under way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mq.client import Unauthorized, operations
from mq.client.connection import parse_url
from mq.client.retries import TOKEN_SECONDS, Context
from mq.client.token import Token
from mq.client.wire import ClientPause, Request, ServerAnswer
from tests.support.played import COUNTS, ORDERS, Played, PlayedClock, problem

ADDRESS = parse_url("http://localhost", None, None)
REFUSED = problem(401, "unauthorized")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("old\n")
    return path


@pytest.fixture
def context(context: Context, path: Path) -> Context:
    """The context of a client with a file of its token."""
    return context._replace(token=Token(None, path, ADDRESS))


class Knowing:
    """A server that knows one token, and answers what it is asked when it is told to."""

    def __init__(self, token: str) -> None:
        self.token = token

    def __call__(self, request: Request) -> ServerAnswer:
        is_known = request.headers.get("Authorization") == f"Bearer {self.token}"
        return COUNTS if is_known else REFUSED


def test_every_request_that_was_under_way_takes_the_new_token(context: Context, path: Path) -> None:
    server = Knowing("old")
    under_way = [operations.count(context, ORDERS) for _ in range(5)]
    sent = [next(each) for each in under_way]
    server.token = "new"
    path.write_text("new\n")

    for operation, request in zip(under_way, sent, strict=True):
        assert isinstance(request, Request)
        again = operation.send(server(request))
        assert isinstance(again, Request)
        with pytest.raises(StopIteration):
            operation.send(server(again))


def test_a_token_that_is_refused_and_not_replaced_is_said_at_once(
    context: Context, clock: PlayedClock
) -> None:
    with pytest.raises(Unauthorized):
        Played(operations.count(context, ORDERS), clock, REFUSED)

    assert clock.now == 1000


def empty(path: Path) -> None:
    path.write_text("")


def several_words(path: Path) -> None:
    path.write_text("half a token of\nsomething")


def not_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


@pytest.mark.parametrize("spoil", [Path.unlink, empty, several_words, not_text])
def test_a_file_without_a_token_is_waited_for_a_moment_and_the_old_token_stays(
    context: Context, clock: PlayedClock, path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(path)
    with pytest.raises(Unauthorized):
        Played(operations.count(context, ORDERS), clock, REFUSED)
    assert TOKEN_SECONDS <= clock.now - 1000 <= 3 * TOKEN_SECONDS
    assert context.token.show() == "old"

    counting = operations.count(context, ORDERS)
    assert isinstance(next(counting), Request)
    assert isinstance(counting.send(REFUSED), ClientPause)
    path.write_text("new")
    again = counting.send(None)
    assert isinstance(again, Request)
    assert again.headers["Authorization"] == "Bearer old"
    again = counting.send(REFUSED)
    assert isinstance(again, Request)
    assert again.headers["Authorization"] == "Bearer new"


def test_without_retry_time_a_file_without_a_token_is_not_waited_for(
    context: Context, clock: PlayedClock, path: Path
) -> None:
    path.unlink()

    with pytest.raises(Unauthorized):
        Played(operations.count(context._replace(retry_seconds=0), ORDERS), clock, REFUSED)

    assert clock.now == 1000


def test_one_request_is_not_sent_with_new_tokens_for_ever(context: Context, path: Path) -> None:
    counting = operations.count(context, ORDERS)
    next(counting)
    refusals = 0

    def refuse_all() -> None:
        nonlocal refusals
        for refusals in range(1000):
            path.write_text(f"token-{refusals}")
            counting.send(REFUSED)

    with pytest.raises(Unauthorized):
        refuse_all()
    assert 1 < refusals < 20


@pytest.mark.parametrize("token", ["", "two words", "t\xf6ken", "line\n"])
def test_what_cannot_stand_in_a_header_is_no_token(token: str) -> None:
    with pytest.raises(ValueError, match="token") as caught:
        Token(token, None, ADDRESS)
    assert token == "" or token not in str(caught.value)
