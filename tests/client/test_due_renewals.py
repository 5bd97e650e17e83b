"""Renewals are begun when they are due, by one thread that is there while it has something to wait
for."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from mq.client.blocking import due_renewals as waiting
from mq.client.blocking.due_renewals import DueRenewals
from tests.support.processes import wait_until

LONG_SECONDS = 60.0


@pytest.fixture
def due(monkeypatch: pytest.MonkeyPatch) -> DueRenewals:
    monkeypatch.setattr(waiting, "_LINGER_SECONDS", 0.05)
    monkeypatch.setattr(waiting, "_NO_THREAD_SECONDS", 0.05)
    return DueRenewals()


@pytest.fixture
def begun() -> list[str]:
    return []


def noting(begun: list[str], name: str) -> Callable[[], None]:
    return lambda: begun.append(name)


def test_each_begins_once_when_it_is_due(due: DueRenewals, begun: list[str]) -> None:
    for name, seconds in (("never", LONG_SECONDS), ("second", 0.2), ("first", 0.1), ("now", 0.0)):
        due.add(name, noting(begun, name), seconds)

    wait_until(lambda: len(begun) == 3)

    assert begun == ["now", "first", "second"]
    assert ["never" in due, "now" in due] == [True, False]
    due.discard("never")


def test_what_is_forgotten_never_begins(due: DueRenewals, begun: list[str]) -> None:
    due.add("one", noting(begun, "one"), 0.1)
    due.discard("one")
    due.add("two", noting(begun, "two"), 0.2)

    wait_until(lambda: begun)

    assert begun == ["two"]
    assert "one" not in due


def test_the_thread_ends_when_nothing_is_left_and_another_comes(
    due: DueRenewals, begun: list[str]
) -> None:
    for name in ("one", "two"):
        due.add(name, noting(begun, name), 0.0)
        thread = due._thread
        assert thread is not None
        wait_until(lambda: not thread.is_alive())

        assert (begun[-1], due._thread) == (name, None)


def test_the_thread_waits_as_long_as_there_is_a_block(due: DueRenewals, begun: list[str]) -> None:
    due.add("block", noting(begun, "block"), LONG_SECONDS)
    thread = due._thread
    assert thread is not None
    thread.join(0.3)
    assert thread.is_alive()

    due.add("short", noting(begun, "short"), 0.0)
    wait_until(lambda: begun == ["short"])
    assert due._thread is thread

    due.discard("block")
    due.add("last", noting(begun, "last"), 0.0)
    wait_until(lambda: not thread.is_alive())


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_one_for_which_there_is_no_thread_is_tried_again(
    due: DueRenewals, begun: list[str], error: Exception
) -> None:
    failures = iter([error, error])

    def begin() -> None:
        if (failure := next(failures, None)) is not None:
            raise failure
        begun.append("one")

    due.add("one", begin, 0.0)

    wait_until(lambda: begun)
    assert next(failures, None) is None


def test_without_a_thread_that_waits_it_is_refused_and_the_next_one_has_one(
    due: DueRenewals, begun: list[str]
) -> None:
    before = threading.stack_size(1 << 46)
    try:
        with pytest.raises((RuntimeError, MemoryError)):
            due.add("one", noting(begun, "one"), 0.0)
    finally:
        threading.stack_size(before)
    due.discard("one")

    due.add("two", noting(begun, "two"), 0.0)
    wait_until(lambda: begun == ["two"])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_fails_is_replaced(due: DueRenewals, begun: list[str]) -> None:
    def fail() -> None:
        raise SystemExit

    due.add("one", fail, 0.0)
    wait_until(lambda: due._thread is None)
    due.discard("one")

    due.add("two", noting(begun, "two"), 0.0)
    wait_until(lambda: begun == ["two"])
