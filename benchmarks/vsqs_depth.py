"""What a message costs in a queue without a server, with few and with many others waiting.

    pip install -e '.[bench]'
    python benchmarks/vsqs_depth.py ROOT [--depths 100,100000]

For each depth a queue of that many messages is made below ROOT and opened once. Publishes and
receives are timed, one after the other in one process, each synced. In turn over the rounds:

    vsqs             this package, in microseconds, so that the clock holds nobody up
    vsqs, no sync    the same with sync=False
    naive            the same protocol and the same syncs, but a listing at each step, as the
                     released vsqs does
    persist-queue    its FIFOSQLiteQueue, a commit for each call; a receive is a removal
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import persistqueue

from vsqs.queue import Queue

_BODY = b"x" * 100
_VISIBILITY_SECONDS = 3600

Operations = tuple[Callable[[], object], Callable[[], object]]
"""Publish one, receive one."""


class Naive:
    """The protocol as its document says, without an index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd = os.open(folder, os.O_RDONLY)

    def publish(self) -> None:
        names = self._names()
        name = str(max(time.time_ns() // 1000, max(names, default=0) + 1))
        new = self._folder / f"{name}.new"
        fd = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        assert int(name) not in self._names()
        os.write(fd, _BODY)
        os.fsync(fd)
        os.close(fd)
        os.rename(new, self._folder / name)
        os.fsync(self._fd)

    def receive(self) -> bytes:
        now = time.time_ns() // 1000
        ready = []
        for name in os.listdir(self._folder):
            created, _, expiry = name.partition(".")
            if not expiry:
                ready.append(int(created))
            elif expiry.isdigit() and int(expiry) <= now:
                os.rename(self._folder / name, self._folder / created)
        oldest = self._folder / str(min(ready))
        taken = self._folder / f"{oldest.name}.{now + _VISIBILITY_SECONDS * 1_000_000}"
        os.rename(oldest, taken)
        os.fsync(self._fd)
        return taken.read_bytes()

    def _names(self) -> set[int]:
        names = os.listdir(self._folder)
        return {int(name.partition(".")[0]) for name in names if not name.endswith(".new")}


def fill(folder: Path, depth: int) -> None:
    """Write messages as they lie in the folder, synced together."""
    folder.mkdir()
    begin = time.time_ns() // 1000 - depth
    for number in range(depth):
        (folder / str(begin + number)).write_bytes(_BODY)
    fd = os.open(folder, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


@contextmanager
def vsqs(folder: Path, depth: int) -> Iterator[Operations]:
    fill(folder, depth)
    with Queue(folder, unit="us") as queue:
        yield lambda: queue.publish(_BODY), lambda: queue.receive(_VISIBILITY_SECONDS)


@contextmanager
def vsqs_without_sync(folder: Path, depth: int) -> Iterator[Operations]:
    fill(folder, depth)
    with Queue(folder, unit="us", sync=False) as queue:
        yield lambda: queue.publish(_BODY), lambda: queue.receive(_VISIBILITY_SECONDS)


@contextmanager
def naive(folder: Path, depth: int) -> Iterator[Operations]:
    fill(folder, depth)
    queue = Naive(folder)
    yield queue.publish, queue.receive


@contextmanager
def persist_queue(folder: Path, depth: int) -> Iterator[Operations]:
    filling = persistqueue.FIFOSQLiteQueue(str(folder), auto_commit=False)
    for _ in range(depth):
        filling.put(_BODY)
    filling.task_done()
    filling.close()
    queue = persistqueue.FIFOSQLiteQueue(str(folder), auto_commit=True)
    yield lambda: queue.put(_BODY), queue.get
    queue.close()


SYSTEMS = {
    "vsqs": vsqs,
    "vsqs, no sync": vsqs_without_sync,
    "naive": naive,
    "persist-queue": persist_queue,
}


def seconds_of(operation: Callable[[], object], times: int) -> float:
    """Return the seconds of one operation, on average."""
    started = time.perf_counter()
    for _ in range(times):
        operation()
    return (time.perf_counter() - started) / times


@click.command()
@click.argument("root", type=click.Path(path_type=Path, exists=True))
@click.option("--depths", default="100,100000", show_default=True)
@click.option("--messages", default=90, show_default=True, help="Less than the smallest depth.")
@click.option("--rounds", default=3, show_default=True)
def main(root: Path, depths: str, messages: int, rounds: int) -> None:
    """Milliseconds a message, at different depths of one queue."""
    found = defaultdict(list)
    for _ in range(rounds):
        for depth in map(int, depths.split(",")):
            for system, opened in SYSTEMS.items():
                with (
                    tempfile.TemporaryDirectory(dir=root) as folder,
                    opened(Path(folder) / "queue", depth) as (publish, receive),
                ):
                    publish()  # the first call opens what is still to be opened
                    found[system, depth, "publish"].append(seconds_of(publish, messages))
                    found[system, depth, "receive"].append(seconds_of(receive, messages))
    for (system, depth, what), times in sorted(found.items()):
        print(f"{system:14} {depth:7} {what:8} {statistics.median(times) * 1000:8.3f} ms  "
              f"({min(times) * 1000:.3f} to {max(times) * 1000:.3f})")  # fmt: skip


if __name__ == "__main__":
    main()
