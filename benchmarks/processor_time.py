"""Who spends the processor's time while something runs: a sampler of /proc, by kind of process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

SAMPLE_SECONDS = 0.05
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")

KINDS = (
    ("org.apache.spark.deploy", "JVM"),
    ("pyspark.daemon", "tasks"),
    ("pyspark.sql", "driver"),
    ("-m mq ", "server"),
)
"""What a command line has, and what such a process is called. The Python of a driver that works for
a stream has a process of its own; that of a batch write is one of the daemon's, as tasks are."""

OTHERS = "others"


class Times(NamedTuple):
    """Seconds of a processor, in the program itself and in the kernel for it."""

    user: float = 0.0
    system: float = 0.0

    def __add__(self, other: object) -> Times:
        assert isinstance(other, Times)
        return Times(self.user + other.user, self.system + other.system)

    def less(self, other: Times) -> Times:
        return Times(self.user - other.user, self.system - other.system)


class ProcessorTime:
    """Counts, from `with` to its end, what the processes below some others used. Of a process that
    ends in between, the time since the last sample is missing."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._tops = tuple(pids)
        self._first: dict[int, Times] = {}
        self._last: dict[int, tuple[str, Times]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._sample()
        self._first = {pid: times for pid, (_, times) in self._last.items()}
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._sample()

    def by_kind(self) -> dict[str, Times]:
        found: dict[str, Times] = {}
        for pid, (kind, times) in self._last.items():
            used = times.less(self._first.get(pid, Times()))
            found[kind] = found.get(kind, Times()) + used
        return found

    def _run(self) -> None:
        while not self._stopping.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        waiting = list(self._tops)
        while waiting:
            pid = waiting.pop()
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                tasks = os.listdir(f"/proc/{pid}/task")
            except OSError:
                continue
            for task in tasks:
                with suppress(OSError):
                    children = Path(f"/proc/{pid}/task/{task}/children").read_text()
                    waiting += map(int, children.split())
            times = Times(int(fields[11]) / TICKS_A_SECOND, int(fields[12]) / TICKS_A_SECOND)
            self._last[pid] = (kind_of(command), times)


def kind_of(command: str) -> str:
    return next((kind for part, kind in KINDS if part in command), OTHERS)
