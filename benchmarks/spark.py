"""Messages per second through Spark, beside the same work on files with no Spark around it.

    python benchmarks/spark.py ROOT [ROOT ...] [--messages 100000] [--bytes 256]

On a fresh folder below each ROOT, in one run: a queue streamed to Parquet, and a DataFrame written
to a queue, on two cores, start-up excluded by a small run before. The ceilings are one loop each in
this process, with nothing but the system calls that a message needs:

    source   list; rename out of the queue, open, read seal and body, close, rename to remove; sync
    sink     create, write, write the seal, close; sync; rename into the queue; sync
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession

import pyspark_mq
from mq.config import ServerConfig
from mq.names import MessageIds
from mq.spool.files import Files
from mq.spool.message import SEAL_ATTRIBUTE
from mq.spool.root import open_root

WARM_UP = 2000


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
        rows = self.spark.range(0, messages, 1, 2).selectExpr(f"repeat('x', {self.length}) value")
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
        stage = self.folder / f"stage-{queue.name}"
        stage.mkdir()
        body, seal = b"x" * self.length, bytes(32)
        names = [self._ids.next() for _ in range(messages)]
        folder_fd = os.open(stage, os.O_RDONLY)
        queue_fd = os.open(queue, os.O_RDONLY)
        for name in names:
            fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, dir_fd=folder_fd)
            os.write(fd, body)
            os.setxattr(fd, SEAL_ATTRIBUTE, seal)
            os.close(fd)
        Files().sync_file_system(folder_fd)
        for name in names:
            os.rename(name, name, src_dir_fd=folder_fd, dst_dir_fd=queue_fd)
        Files().sync_file_system(folder_fd)
        os.close(folder_fd)
        os.close(queue_fd)

    def read_files(self, queue: Path) -> None:
        """The ceiling of the source."""
        claim = self.folder / f"claim-{queue.name}"
        claim.mkdir()
        claim_fd = os.open(claim, os.O_RDONLY)
        queue_fd = os.open(queue, os.O_RDONLY)
        remove_fd = os.open(self.root / "remove", os.O_RDONLY)
        for name in sorted(os.listdir(queue_fd)):
            os.rename(name, name, src_dir_fd=queue_fd, dst_dir_fd=claim_fd)
            fd = os.open(name, os.O_RDONLY, dir_fd=claim_fd)
            os.getxattr(fd, SEAL_ATTRIBUTE)
            assert len(os.read(fd, self.length + 1)) == self.length
            os.close(fd)
            os.rename(name, f"{queue.name}:{name}", src_dir_fd=claim_fd, dst_dir_fd=remove_fd)
        Files().sync_file_system(claim_fd)
        os.close(claim_fd)
        os.close(remove_fd)
        os.close(queue_fd)

    def measure(self) -> dict[str, float]:
        """Messages per second."""
        warm = self.make_queue()
        self.write(warm, WARM_UP)
        self.read(warm)
        queue, plain = self.make_queue(), self.make_queue()
        return {
            "create files": self._rate(lambda: self.create_files(plain, self.messages)),
            "sink": self._rate(lambda: self.write(queue, self.messages)),
            "read files": self._rate(lambda: self.read_files(plain)),
            "source": self._rate(lambda: self.read(queue)),
        }

    def _rate(self, work: Callable[[], None]) -> float:
        started = time.monotonic()
        work()
        return self.messages / (time.monotonic() - started)


def make_session() -> Any:
    pyspark_mq.prepare()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.driver.memory", "2g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@click.command()
@click.argument("roots", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--messages", default=100_000, show_default=True)
@click.option("--bytes", "length", default=256, show_default=True)
def main(roots: tuple[Path, ...], messages: int, length: int) -> None:
    """Print a row for each root."""
    spark = make_session()
    print("| root | source | read files | of it | sink | create files | of it |")
    print("|---|---|---|---|---|---|---|")
    for root in roots:
        folder = Path(tempfile.mkdtemp(dir=root, prefix="mq-bench-"))
        try:
            rate = Bench(spark, folder, messages, length).measure()
        finally:
            shutil.rmtree(folder)
        of_source, of_sink = (
            rate["source"] / rate["read files"],
            rate["sink"] / rate["create files"],
        )
        print(
            f"| {root} | {rate['source']:.0f} | {rate['read files']:.0f} | {of_source:.0%} "
            f"| {rate['sink']:.0f} | {rate['create files']:.0f} | {of_sink:.0%} |"
        )
    spark.stop()


if __name__ == "__main__":
    main()
