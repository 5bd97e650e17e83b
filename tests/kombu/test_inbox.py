"""The inbox: readable while there is something in it."""

from __future__ import annotations

import selectors
from queue import Empty

import pytest

from mq.kombu.inbox import Arrival, Inbox


def arrival(consumer: str) -> Arrival:
    return Arrival(consumer, lambda message: None, None, RuntimeError(consumer))


def is_readable(inbox: Inbox) -> bool:
    with selectors.PollSelector() as poll:
        poll.register(inbox, selectors.EVENT_READ)
        return bool(poll.select(0))


def test_it_is_readable_until_all_is_taken() -> None:
    inbox = Inbox()
    one, two = arrival("a"), arrival("b")
    inbox.put(one)
    inbox.put(two)

    assert inbox.take(0) is one
    assert is_readable(inbox)
    assert inbox.take(0) is two
    assert not is_readable(inbox)
    with pytest.raises(Empty):
        inbox.take(0)
    inbox.close()


def test_it_is_not_readable_after_all_was_withdrawn() -> None:
    inbox = Inbox()
    inbox.put(arrival("a"))
    kept = arrival("b")
    inbox.put(kept)

    inbox.withdraw("a")
    assert is_readable(inbox)
    inbox.withdraw("b")

    assert not is_readable(inbox)
    inbox.put(kept)
    assert is_readable(inbox)
    inbox.close()


def test_more_than_the_socket_holds_loses_nothing() -> None:
    inbox = Inbox()
    for _ in range(100_000):
        inbox.put(arrival("a"))

    for _ in range(100_000):
        inbox.take(0)

    assert not is_readable(inbox)
    inbox.close()


def test_what_one_consumer_is_not_given_is_withdrawn() -> None:
    inbox = Inbox()
    inbox.put(arrival("a"))
    kept = arrival("b")
    inbox.put(kept)

    inbox.withdraw("a")

    assert inbox.take(0) is kept
    inbox.close()


def test_a_closed_one_takes_nothing() -> None:
    inbox = Inbox()
    inbox.close()
    inbox.close()

    assert not inbox.put(arrival("a"))
