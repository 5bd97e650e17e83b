"""The progress of a pipeline: messages, rate, what waits, time left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from mq.command.pace import CLEAR_LINE, pace_texts

TERMINAL_SECONDS = 0.5
FILE_SECONDS = 10.0
"""How often a line is written, on a terminal and to a file."""


class ProgressLine:
    """One line that is renewed on a terminal, or a line now and then in a file."""

    def __init__(
        self, name: str, stream: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._stream = stream
        self._clock = clock
        self._is_terminal = stream.isatty()
        self._began_at = self._told_at = clock()

    def tell(self, done: int, left: int | None) -> None:
        """Show how many messages are done, and how many are known to be left."""
        now = self._clock()
        if now - self._told_at < (TERMINAL_SECONDS if self._is_terminal else FILE_SECONDS):
            return
        self._told_at = now
        text = progress_text(self._name, done, left, now - self._began_at)
        print(f"{CLEAR_LINE}{text}" if self._is_terminal else text,
              end="" if self._is_terminal else "\n", file=self._stream, flush=True)  # fmt: skip

    def end(self, done: int, how: str = "") -> None:
        """Write the last line: what was done, and in what time."""
        seconds = self._clock() - self._began_at
        clear = CLEAR_LINE if self._is_terminal else ""
        [rate] = pace_texts(done, None, seconds)
        print(f"{clear}{self._name}: {done:,} messages in {seconds:.1f} s, {rate}{how}",
              file=self._stream, flush=True)  # fmt: skip


def progress_text(name: str, done: int, left: int | None, seconds: float) -> str:
    """Return the text of a line. `left` is None if it is unknown."""
    rate, *rest = pace_texts(done, left, seconds)
    waiting = [] if left is None else [f"{left:,} waiting"]
    return ", ".join([f"{name}: {done:,} messages", rate, *waiting, *rest])


@contextmanager
def watching_tasks(spark: Any, line: ProgressLine, total: int) -> Iterator[None]:
    """Show, while a job runs in this block, what share of its tasks is done."""
    is_over = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def watch() -> None:
        while not is_over.wait(TERMINAL_SECONDS):
            share = _share_done(tracker)
            line.tell(int(total * share), total - int(total * share))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _share_done(tracker: Any) -> float:
    done = known = 0
    for stage in tracker.getActiveStageIds():
        info = tracker.getStageInfo(stage)
        if info is not None:
            done += info.numCompletedTasks
            known += info.numTasks
    return done / known if known else 0.0
