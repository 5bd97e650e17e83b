"""A job ends by itself, or by a signal, which never interrupts the job itself."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from pyspark_mq.pipeline.stopping import raise_on_signals, run_until_stopped


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    raise_on_signals()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_job_that_ends_gives_what_it_returns_or_raises() -> None:
    def fail() -> None:
        raise ValueError("why")

    assert run_until_stopped(lambda: 7, lambda: None) == 7
    with pytest.raises(ValueError, match="why"):
        run_until_stopped(fail, lambda: None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_the_job_to_stop_and_waits_for_its_last_words(number: signal.Signals) -> None:
    stopping, said = threading.Event(), []

    def work() -> None:
        os.kill(os.getpid(), number)
        stopping.wait()
        said.append("the last words")

    with pytest.raises(KeyboardInterrupt):
        run_until_stopped(work, stopping.set)

    assert said == ["the last words"]


def test_a_job_that_fails_because_it_was_stopped_was_interrupted() -> None:
    stopping = threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        stopping.wait()
        raise RuntimeError("cancelled")

    with pytest.raises(KeyboardInterrupt):
        run_until_stopped(work, stopping.set)
