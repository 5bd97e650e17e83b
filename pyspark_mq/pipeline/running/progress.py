"""The progress of a pipeline: messages, rate, what waits, time left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

from mq.command.pace import CLEAR_LINE, is_screen, pace_texts

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
        self._is_screen = is_screen(stream)
        self._began_at = self._told_at = clock()

    def tell(self, done: int, left: int | None) -> None:
        """Show how many messages are done, and how many are known to be left."""
        now = self._clock()
        if now - self._told_at < (TERMINAL_SECONDS if self._is_screen else FILE_SECONDS):
            return
        self._told_at = now
        text = progress_text(self._name, done, left, now - self._began_at)
        print(f"{CLEAR_LINE}{text}" if self._is_screen else text,
              end="" if self._is_screen else "\n", file=self._stream, flush=True)  # fmt: skip

    def say(self, text: str) -> None:
        """Write a line of its own."""
        clear = CLEAR_LINE if self._is_screen else ""
        print(f"{clear}{self._name}: {text}", file=self._stream, flush=True)

    def end(self, done: int, how: str = "") -> None:
        """Write the last line: what was done, and in what time."""
        seconds = self._clock() - self._began_at
        [rate] = pace_texts(done, None, seconds)
        self.say(f"{done:,} messages in {seconds:.1f} s, {rate}{how}")


def progress_text(name: str, done: int, left: int | None, seconds: float) -> str:
    """Return the text of a line. `left` is None if it is unknown."""
    rate, *rest = pace_texts(done, left, seconds)
    waiting = [] if left is None else [f"{left:,} waiting"]
    return ", ".join([f"{name}: {done:,} messages", rate, *waiting, *rest])


class WorkCount(Protocol):
    """Says how far a job is."""

    total: int

    def done(self) -> int:
        """Return how many messages are done now, up to `total`."""


@contextmanager
def watching(line: ProgressLine, count: WorkCount) -> Iterator[None]:
    """Show, while a job runs in this block, how much of it is done. Between two looks it pauses ten
    times as long as a look takes."""
    is_over = threading.Event()

    def watch() -> None:
        pause = TERMINAL_SECONDS
        while not is_over.wait(pause):
            began_at = time.monotonic()
            try:
                done = count.done()
            except Exception:
                # The job meets the same error and reports it; this only shows the progress.
                return
            line.tell(done, count.total - done)
            pause = max(TERMINAL_SECONDS, 10 * (time.monotonic() - began_at))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


class TaskCount:
    """How far a job is, by the tasks of its group that are done. All tasks count the same."""

    def __init__(self, spark: Any, group: str, total: int) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._group = group
        self.total = total

    def done(self) -> int:
        ended = known = 0
        for job in self._tracker.getJobIdsForGroup(self._group):
            info = self._tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                stage_info = self._tracker.getStageInfo(stage)
                if stage_info is not None:
                    ended += stage_info.numCompletedTasks
                    known += stage_info.numTasks
        return self.total * ended // known if known else 0
