"""A test that its timeout ends in the middle of a call to the JVM does not disturb the next one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.jvm import leave_connection


class CallInterrupted(BaseException):
    pass


@pytest.fixture
def interrupt_soon() -> Iterator[threading.Timer]:
    """A timer that makes the main thread raise CallInterrupted, whatever it waits for."""

    def interrupt(*_: object) -> None:
        raise CallInterrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGUSR1))
    yield timer
    timer.join()
    signal.signal(signal.SIGUSR1, before)


def test_no_later_call_gets_its_answer(spark: Any, interrupt_soon: threading.Timer) -> None:
    interrupt_soon.start()
    with pytest.raises(CallInterrupted) as _kept:
        spark._jvm.java.lang.Thread.sleep(1000)

    leave_connection()

    assert [spark._jvm.java.lang.Integer.toString(number) for number in range(3)] == ["0", "1", "2"]
