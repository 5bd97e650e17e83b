"""How long the fate of a message is open while Spark works by url.

    python benchmarks/spark_windows.py ROOT [ROOT ...] [--messages 100000] [--bytes 256]

On a fresh folder below each ROOT: a server with a queue, which the driver's part of a stream brings
into a staging and the driver's part of a write publishes to another queue, without Spark around
them. Of each request, of up to 1,000 messages, it takes the time in which a crash of the driver
would leave messages that may come twice later:

    source   from the first message staged to the answer to their removal; three at a time
    sink     from the request that publishes them until they have left the staging, durably

It prints how many requests there were, the median and the longest of these times, and what part of
the whole run at least one window was open.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Set
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click
from servers import serving

from mq.client import Client, Message, NewMessage
from mq.disk.files import Files
from mq.names import QueueName
from pyspark_mq.by_url.committed import Committed
from pyspark_mq.by_url.forward import Forwarder
from pyspark_mq.by_url.intake import Intake
from pyspark_mq.by_url.servers import ServerChoice
from pyspark_mq.by_url.staging import open_staging, prepare_staging
from pyspark_mq.options.addresses import Addresses

SOURCE, TARGET = QueueName("orders"), QueueName("copies")


class Window(NamedTuple):
    """When a window was opened and closed, in seconds."""

    opened: float
    closed: float


class TimedIntake(Intake):
    """An intake that notes its windows; each of its threads has one open at a time."""

    def note_in(self, windows: list[Window]) -> None:
        self._windows = windows
        self._opened: dict[int, float] = {}

    def stage(self, queue: QueueName, messages: Iterable[Message]) -> dict[str, str]:
        self._opened[threading.get_ident()] = time.monotonic()
        return super().stage(queue, messages)

    def decide(self, queue: QueueName, leases: dict[str, str], lost: Set[str]) -> int:
        opened = self._opened.pop(threading.get_ident())
        self._windows.append(Window(opened, time.monotonic()))
        return super().decide(queue, leases, lost)


class TimedForwarder(Forwarder):
    """A forwarder that notes its windows; it has one open at a time."""

    def note_in(self, windows: list[Window]) -> None:
        self._windows = windows
        self._opened = 0.0

    def _publish(self, queue: QueueName, batch: list[tuple[Committed, NewMessage]]) -> None:
        self._opened = time.monotonic()
        super()._publish(queue, batch)

    def put_away(self, queue: QueueName, places: list[Committed]) -> None:
        super().put_away(queue, places)
        self._windows.append(Window(self._opened, time.monotonic()))


def bring(staging: Path, addresses: Addresses, messages: int) -> list[Window]:
    """Bring all messages of a queue into the staging."""
    prepare_staging(staging, addresses.urls)
    windows: list[Window] = []
    intake = TimedIntake(staging, addresses, [SOURCE])
    intake.note_in(windows)
    try:
        intake.require_queues()
        assert intake.fetch(messages, None) == messages
    finally:
        intake.close()
    return windows


def publish(staging: Path, addresses: Addresses) -> list[Window]:
    """Publish all messages that a staging has."""
    windows: list[Window] = []
    spool = open_staging(staging, Files())
    try:
        with ServerChoice(addresses) as servers:
            forwarder = TimedForwarder(spool, servers)
            forwarder.note_in(windows)
            forwarder.forward()
    finally:
        spool.close()
    return windows


def measure(folder: Path, url: str, messages: int, length: int) -> dict[str, list[Window]]:
    """Return the windows of each direction."""
    addresses = Addresses((url,))
    with Client(url) as mq:
        for queue in (SOURCE, TARGET):
            mq.queue(queue).create()
        mq.queue(SOURCE).publish_many([os.urandom(length) for _ in range(messages)])
    staged, committed = folder / "staging/in", folder / "staging/out"
    found = {"source": bring(staged, addresses, messages)}
    prepare_staging(committed, addresses.urls)
    (staged / "queues" / SOURCE).rename(committed / "queues" / TARGET)
    return found | {"sink": publish(committed, addresses)}


def open_seconds(windows: Iterable[Window]) -> float:
    """Return for how long at least one window was open."""
    seconds = until = 0.0
    for opened, closed in sorted(windows):
        seconds += max(0.0, closed - max(opened, until))
        until = max(until, closed)
    return seconds


def print_windows(root: Path, found: dict[str, list[Window]]) -> None:
    """Print what was measured as a table."""
    print(
        f"\n{root}:\n\n| | requests | median | longest | part of the run |\n|---|---|---|---|---|"
    )
    for what, windows in found.items():
        took = [each.closed - each.opened for each in windows]
        run = max(each.closed for each in windows) - min(each.opened for each in windows)
        print(
            f"| {what} | {len(took)} | {median(took) * 1e3:.0f} ms | {max(took) * 1e3:.0f} ms "
            f"| {open_seconds(windows) / run:.0%} |"
        )


@click.command()
@click.argument("roots", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--messages", default=100_000, show_default=True)
@click.option("--bytes", "length", default=256, show_default=True)
def main(roots: tuple[Path, ...], messages: int, length: int) -> None:
    """Print a table for each root."""
    for root in roots:
        folder = Path(tempfile.mkdtemp(dir=root, prefix="mq-bench-"))
        try:
            with serving(folder / "served") as server:
                [(host, port)] = server.addresses
                print_windows(root, measure(folder, f"http://{host}:{port}", messages, length))
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
