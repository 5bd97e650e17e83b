"""Messages per second through Spark, beside the same work on files with no Spark around it.

    python benchmarks/spark.py ROOT [ROOT ...] [--messages 100000] [--bytes 256] [--rounds 3]

On a fresh folder below each ROOT, in one run: a queue streamed to Parquet, and a DataFrame written
to a queue, on two cores, start-up excluded by a small run before; medians of the rounds. The
ceilings are two processes, as many as Spark has cores, which share the messages and do nothing but
the system calls that a message needs, in a loop of Python:

    source   list; rename out of the queue, open, read seal and body, close, rename to remove; sync
    sink     create, write, write the seal, close; sync; rename into the queue; sync

`one rename` is the loop of the source without the second rename, as Spark's source removes a whole
batch at once: what no reader that takes messages one by one out of a queue can do better.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import click
from pyspark.sql import SparkSession

import pyspark_mq
from mq.config import ServerConfig
from mq.names import MessageIds
from mq.spool.files import Files
from mq.spool.root import open_root
from mq.spool.seal import SEAL_ATTRIBUTE

CORES = 2
WARM_UP = 20_000
"""Messages: by then the JVM has compiled what each one passes through."""


class Bench:
    """One root and what is measured on it."""

    def __init__(self, spark: Any, folder: Path, messages: int, length: int) -> None:
        self.spark = spark
        self.folder = folder
        self.root = folder / "root"
        self.messages = messages
        self.length = length
        self._ids = MessageIds(time.time_ns)
        open_root(self.root, ServerConfig().mode, Files())[0].close()

    def make_queue(self) -> Path:
        queue = self.root / "queues" / f"q{uuid.uuid4().hex[:8]}"
        queue.mkdir()
        return queue

    def write(self, queue: Path, messages: int) -> None:
        """A DataFrame to the queue."""
        rows = self.spark.range(0, messages, 1, CORES).selectExpr(
            f"repeat('x', {self.length}) value"
        )
        writer = rows.write.format("mq").option("root", str(self.root)).option("queue", queue.name)
        writer.mode("append").save()
        assert len(os.listdir(queue)) == messages

    def read(self, queue: Path) -> None:
        """A stream from the queue to Parquet, until it is empty."""
        source = self.spark.readStream.format("mq").option("root", str(self.root))
        source = source.option("queue", queue.name).option("group", queue.name)
        writer = source.load().writeStream.format("parquet")
        writer = writer.option("path", str(self.folder / f"lake-{queue.name}"))
        writer = writer.option("checkpointLocation", str(self.folder / f"checkpoint-{queue.name}"))
        writer.trigger(availableNow=True).start().awaitTermination()
        assert os.listdir(queue) == []

    def create_files(self, queue: Path, messages: int) -> None:
        """The ceiling of the sink."""
        body, seal = b"x" * self.length, bytes(32)
        names = [self._ids.next() for _ in range(messages)]

        def create(share: int) -> None:
            stage = self.folder / f"stage-{queue.name}-{share}"
            stage.mkdir()
            folder_fd = os.open(stage, os.O_RDONLY)
            for name in names[share::CORES]:
                fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, dir_fd=folder_fd)
                os.write(fd, body)
                os.setxattr(fd, SEAL_ATTRIBUTE, seal)
                os.close(fd)
            Files().sync_file_system(folder_fd)

        def deliver(share: int) -> None:
            folder_fd = os.open(self.folder / f"stage-{queue.name}-{share}", os.O_RDONLY)
            queue_fd = os.open(queue, os.O_RDONLY)
            for name in names[share::CORES]:
                os.rename(name, name, src_dir_fd=folder_fd, dst_dir_fd=queue_fd)
            Files().sync_file_system(folder_fd)

        on_every_core(create)
        on_every_core(deliver)

    def read_files(self, queue: Path, renames: int) -> None:
        """The ceiling of the source."""
        claim = self.folder / f"claim-{queue.name}"
        claim.mkdir()
        names = sorted(os.listdir(queue))

        def read(share: int) -> None:
            claim_fd = os.open(claim, os.O_RDONLY)
            queue_fd = os.open(queue, os.O_RDONLY)
            remove_fd = os.open(self.root / "remove", os.O_RDONLY)
            for name in names[share::CORES]:
                os.rename(name, name, src_dir_fd=queue_fd, dst_dir_fd=claim_fd)
                fd = os.open(name, os.O_RDONLY, dir_fd=claim_fd)
                os.getxattr(fd, SEAL_ATTRIBUTE)
                assert len(os.read(fd, self.length + 1)) == self.length
                os.close(fd)
                if renames > 1:
                    done = f"{queue.name}:{name}"
                    os.rename(name, done, src_dir_fd=claim_fd, dst_dir_fd=remove_fd)
            Files().sync_file_system(claim_fd)

        on_every_core(read)

    def measure(self, rounds: int) -> dict[str, float]:
        """Messages per second: medians."""
        warm = self.make_queue()
        self.write(warm, WARM_UP)
        self.read(warm)
        measured = [self._measure_once() for _ in range(rounds)]
        return {what: median(each[what] for each in measured) for what in measured[0]}

    def _measure_once(self) -> dict[str, float]:
        """What is compared comes one right after the other."""
        queue, plain, other = self.make_queue(), self.make_queue(), self.make_queue()
        return {
            "create files": self._rate(lambda: self.create_files(plain, self.messages)),
            "sink": self._rate(lambda: self.write(queue, self.messages)),
            "read files": self._rate(lambda: self.read_files(plain, 2)),
            "source": self._rate(lambda: self.read(queue)),
            "one rename": self._one_rename(other),
        }

    def _one_rename(self, queue: Path) -> float:
        self.create_files(queue, self.messages)
        return self._rate(lambda: self.read_files(queue, 1))

    def _rate(self, work: Callable[[], None]) -> float:
        started = time.monotonic()
        work()
        return self.messages / (time.monotonic() - started)


def on_every_core(work: Callable[[int], None]) -> None:
    """In as many processes, each with its share's number."""
    children = []
    for share in range(CORES):
        child = os.fork()
        if child == 0:
            try:
                work(share)
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * CORES


def make_session() -> Any:
    pyspark_mq.prepare()
    builder = SparkSession.builder.master(f"local[{CORES}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.driver.memory", "2g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@click.command()
@click.argument("roots", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--messages", default=100_000, show_default=True)
@click.option("--bytes", "length", default=256, show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(roots: tuple[Path, ...], messages: int, length: int, rounds: int) -> None:
    """Print a row for each root."""
    spark = make_session()
    print("| root | source | read files | of it | one rename | sink | create files | of it |")
    print("|---|---|---|---|---|---|---|---|")
    for root in roots:
        folder = Path(tempfile.mkdtemp(dir=root, prefix="mq-bench-"))
        try:
            rate = Bench(spark, folder, messages, length).measure(rounds)
        finally:
            shutil.rmtree(folder)
        of_source, of_sink = (
            rate["source"] / rate["read files"],
            rate["sink"] / rate["create files"],
        )
        print(
            f"| {root} | {rate['source']:.0f} | {rate['read files']:.0f} | {of_source:.0%} "
            f"| {rate['one rename']:.0f} "
            f"| {rate['sink']:.0f} | {rate['create files']:.0f} | {of_sink:.0%} |"
        )
    spark.stop()


if __name__ == "__main__":
    main()
