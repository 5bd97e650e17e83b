"""What is told while a pipeline works."""

from __future__ import annotations

import threading
from io import StringIO

import pytest

from pyspark_mq.pipeline.running.progress import ProgressLine, progress_text, watching
from tests.support.processes import wait_until


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


class HandClock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("done", "left", "text"),
    [
        (0, None, "archive: 0 messages, 0/s"),
        (2000, None, "archive: 2,000 messages, 200/s"),
        (2000, 0, "archive: 2,000 messages, 200/s, 0 waiting"),
        (2000, 9000, "archive: 2,000 messages, 200/s, 9,000 waiting, 45 s left"),
        (0, 9000, "archive: 0 messages, 0/s, 9,000 waiting"),
    ],
)
def test_a_line_has_messages_rate_lag_and_time_left(done: int, left: int | None, text: str) -> None:
    assert progress_text("archive", done, left, 10.0) == text


def test_a_terminal_has_one_line_that_changes_and_a_file_a_line_now_and_then() -> None:
    for stream, written in ((Terminal(), "\r\x1b[K"), (StringIO(), "")):
        clock = HandClock()
        line = ProgressLine("load", stream, clock)
        for _ in range(100):
            clock.now += 0.1
            line.tell(5, None)
        told = stream.getvalue().count("load: 5 messages")
        assert (told > 10) == stream.isatty()
        assert stream.getvalue().startswith(written)

        clock.now = 120.0
        line.end(500)
        assert stream.getvalue().endswith("load: 500 messages in 20.0 s, 25/s\n")


def test_a_terminal_that_obeys_no_escapes_counts_as_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    clock, stream = HandClock(), Terminal()
    line = ProgressLine("load", stream, clock)
    clock.now += 20.0

    line.tell(5, None)
    line.end(500)

    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().count("\n") == 2


class DeadCount:
    """Asks a Spark that is gone."""

    total = 5
    is_asked = False

    def done(self) -> int:
        self.is_asked = True
        raise ConnectionRefusedError


def test_a_count_that_fails_leaves_the_error_to_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    hooked: list[object] = []
    monkeypatch.setattr(threading, "excepthook", hooked.append)
    count = DeadCount()

    with watching(ProgressLine("report", StringIO()), count):
        wait_until(lambda: count.is_asked)

    assert hooked == []
