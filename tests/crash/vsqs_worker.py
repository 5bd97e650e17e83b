"""One publisher or consumer of a VSQS queue, as a process that a test may kill at any time.

    python -m tests.crash.vsqs_worker publish FOLDER LOG NAME COUNT CLOCK_SECONDS
    python -m tests.crash.vsqs_worker publish_seldom FOLDER LOG NAME COUNT CLOCK_SECONDS
        So seldom that the queue is often empty, and as one that loses file system events.
    python -m tests.crash.vsqs_worker consume FOLDER LOG VISIBILITY_SECONDS

Each line of the log was written, whole, after what it says had returned.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

from mq.spool.watch import Change, FolderEvent, Watch
from vsqs.queue import Queue


class WorkerLog:
    """Lines that a kill does not tear."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, *words: str) -> None:
        os.write(self._fd, " ".join(words).encode() + b"\n")


def read_log(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def publish(
    folder: str, log: WorkerLog, name: str, count: int, clock_seconds: int, *, pause_seconds: float
) -> None:
    """Go on behind what the log has; a body is `NAME-NUMBER`."""
    ahead_ns = clock_seconds * 1_000_000_000
    queue = Queue(folder, clock_ns=lambda: time.time_ns() + ahead_ns)
    log.note("open")
    sys.stdin.readline()
    for number in range(count):
        time.sleep(random.random() * pause_seconds)
        body = f"{name}-{number:06}"
        log.note("published", queue.publish(body.encode()), body)
    log.note("done")


def lose_events() -> None:
    """Lose events, which happens when they come faster than they are read."""
    read = Watch.read

    def lose(
        watch: Watch, timeout_seconds: float = 0.0, gather_seconds: float = 0.0
    ) -> list[FolderEvent]:
        events = read(watch, timeout_seconds, gather_seconds)
        return [FolderEvent("", "", Change.OVERFLOW)] if random.random() < 0.1 else events

    Watch.read = lose  # type: ignore[assignment, method-assign]


def consume(folder: str, log: WorkerLog, visibility_seconds: float) -> None:
    queue = Queue(folder)
    while True:
        message_id, body = queue.receive(visibility_seconds)
        assert message_id is not None
        assert body is not None
        log.note("received", message_id, body.decode())
        queue.delete(message_id)
        log.note("deleted", message_id)


if __name__ == "__main__":
    action, where, log_path, *arguments = sys.argv[1:]
    if action == "consume":
        consume(where, WorkerLog(log_path), float(arguments[0]))
    else:
        pause_seconds = 0.0
        if action == "publish_seldom":
            lose_events()
            pause_seconds = 0.1
        name, count, clock_seconds = arguments[0], int(arguments[1]), int(arguments[2])
        publish(where, WorkerLog(log_path), name, count, clock_seconds, pause_seconds=pause_seconds)
