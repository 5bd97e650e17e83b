"""The power goes after each change that a source or a sink makes, and a prefix of what was not
synced is kept: afterwards each message is in the sink once, whole.

Spark itself is played: what it has logged is durable, and it replays the batch that it has not
committed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.lifecycle import Actor
from mq.names import QueueName
from mq.spool.root import visit_root
from mq.spool.spark.jobs import Job
from mq.spool.spark.staging import Attempt, StagedMessage
from mq.spool.spark.transactions import commit
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from pyspark_mq.options.options import STREAM_READ, parse_options
from pyspark_mq.reading.driver import Driver
from tests.crash.power import Disk, PowerFiles
from tests.support.lone_root import Root
from tests.support.messages import read_seal, seal_of

ORDERS = QueueName("orders")
MOST_CALLS = 400
KEPT = [0.0, 0.3, 0.7, 1.0]


def cut_everywhere(
    folder: Path, kept: float, work: Callable[[Path, Files], None]
) -> Iterator[Path]:
    """A root for each change after which the power went while `work` was done; ends with the first
    that was done whole."""
    for calls in count():
        assert calls < MOST_CALLS
        place = folder / f"{calls}"
        place.mkdir(parents=True)
        Root(place / "root").put("orders")
        disk = Disk(place / "graveyard")
        files = PowerFiles(disk)
        files.calls_left = calls
        is_done = True
        try:
            work(place / "root", files)
        except OSError:
            is_done = False
        disk.cut(kept)
        yield place / "root"
        shutil.rmtree(place)
        if is_done:
            return


class Query:
    """A stream to a sink that is idempotent by batch, over crashes of its driver."""

    def __init__(self) -> None:
        self.logged = 0
        self.committed = 0
        self.lake: dict[int, list[bytes]] = {}

    def run(self, root: Path, files: Files) -> None:
        given = {"root": str(root), "queue": "orders", "group": "lake", "numPartitions": "2"}
        driver = Driver(parse_options(given, STREAM_READ), files)
        try:
            driver.begin()
            driver.fence()
            if self.logged > self.committed:
                self._read(driver, root)
            while (batch := driver.next_batch(self.committed, 2, None)) > self.committed:
                self.logged = batch
                self._read(driver, root)
        finally:
            driver.close()

    def _read(self, driver: Driver, root: Path) -> None:
        parts = driver.parts_between(self.committed, self.logged)
        self.lake[self.logged] = [
            path.read_bytes() for part in parts for path in (root / "spark" / part).iterdir()
        ]
        self.committed = self.logged

    def bodies(self) -> list[bytes]:
        return sorted(body for batch in self.lake.values() for body in batch)


@pytest.mark.parametrize("kept", KEPT)
def test_a_source_reads_each_message_once_over_a_power_cut(root: Path, kept: float) -> None:
    query = Query()

    def work(at: Path, files: Files) -> None:
        nonlocal query
        query = Query()
        Root(at).put("orders", b"one", b"two", b"three")
        query.run(at, files)

    cuts = 0
    for at in cut_everywhere(root, kept, work):
        query.run(at, Files())
        assert query.bodies() == [b"one", b"three", b"two"]
        assert list((at / "queues/orders").iterdir()) == []
        assert list((at / "spark/claims/lake").glob("*.open.*")) == []
        cuts += 1
    assert cuts > 20


class SparkBatch:
    """One batch of a sink, as the tasks and the driver of one try do it."""

    def __init__(self) -> None:
        self.is_answered = False

    def write(self, root: Path, files: Files) -> None:
        spool = visit_root(root, files, Actor.SPARK)
        try:
            winners = [] if Job(spool, "query").is_committed(3) else self._stage(spool)
            commit(Job(spool, "query"), 3, winners)
            self.is_answered = True
        finally:
            spool.close()

    def _stage(self, spool: Spool) -> list[str]:
        for name, bodies in (("0-1", (b"one", b"two")), ("1-2", (b"three",)), ("1-3", (b"three",))):
            attempt = Attempt(Job(spool, "query"), 3, f"{name}-{id(self)}")
            for body in bodies:
                attempt.add([StagedMessage(ORDERS, body)])
            attempt.seal()
        return [f"0-1-{id(self)}", f"1-2-{id(self)}"]


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("comes_first", ["a server's sweep", "the next try"])
def test_a_sink_writes_each_message_once_over_a_power_cut(
    root: Path, kept: float, comes_first: str
) -> None:
    batch = SparkBatch()

    def work(at: Path, files: Files) -> None:
        nonlocal batch
        batch = SparkBatch()
        batch.write(at, files)

    cuts = 0
    for at in cut_everywhere(root, kept, work):
        if comes_first == "a server's sweep":
            sweep(at)
        if not batch.is_answered:
            SparkBatch().write(at, Files())
        ready = list((at / "queues/orders").iterdir())
        assert sorted(path.read_bytes() for path in ready) == [b"one", b"three", b"two"]
        assert all(
            read_seal(path)._replace(published_ns=0) == seal_of(path.read_bytes()) for path in ready
        )
        assert not (at / "spark/stage/query").exists()
        cuts += 1
    assert cuts > 40


def sweep(root: Path) -> None:
    spool = visit_root(root, Files(), Actor.SERVER)
    Sweeper(spool, lambda *_: None).sweep()
    spool.close()
