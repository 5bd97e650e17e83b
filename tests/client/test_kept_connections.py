"""Connections that a server ends just as another request is sent on them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator

import pytest

from mq.client import Client, NoAnswer
from tests.support.parting import Parting

COUNTS = {"queue": "orders", "ready": 1, "leased": 2, "delayed": 3, "oldest_age_seconds": 4.5}


def answer(body: object, headers: str = "") -> bytes:
    text = json.dumps(body)
    return f"HTTP/1.1 200 OK\r\n{headers}Content-Length: {len(text)}\r\n\r\n{text}".encode()


@pytest.fixture
def parting() -> Iterator[Callable[..., Parting]]:
    started: list[Parting] = []

    def start(answer: bytes, *, resets: bool = False, part: bytes = b"") -> Parting:
        started.append(Parting(answer, resets=resets, part=part))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.mark.parametrize("resets", [False, True], ids=["closed", "reset"])
def test_a_request_that_meets_the_end_is_sent_again_even_without_retries(
    parting: Callable[..., Parting],
    connect_client: Callable[..., Client],
    caplog: pytest.LogCaptureFixture,
    resets: bool,
) -> None:
    caplog.set_level(logging.WARNING)
    server = parting(answer(COUNTS), resets=resets)
    orders = connect_client(server.url, retry_seconds=0).queue("orders")

    for _ in range(3):
        assert orders.counts().leased == 2

    assert server.connections == 3
    assert not caplog.records


def test_an_answer_that_has_begun_is_not_asked_for_again(
    parting: Callable[..., Parting], connect_client: Callable[..., Client]
) -> None:
    server = parting(answer(COUNTS), part=b"HTTP/1.1 200 OK\r\nContent-Length: 80\r\n\r\n{")
    orders = connect_client(server.url, retry_seconds=0).queue("orders")
    orders.counts()

    with pytest.raises(NoAnswer):
        orders.counts()

    assert server.connections == 1


def test_a_move_of_the_oldest_messages_is_not_sent_again(
    parting: Callable[..., Parting], connect_client: Callable[..., Client]
) -> None:
    """It would move others, and count only those."""
    server = parting(answer(COUNTS | {"moved": 1}))
    orders = connect_client(server.url, retry_seconds=0).queue("orders")
    orders.counts()

    with pytest.raises(NoAnswer):
        orders.move("returns")

    assert len(server.requests) == 1
