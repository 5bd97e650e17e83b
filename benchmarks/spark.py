"""Messages per second through Spark by root and by url, beside the same work on files with no Spark
around it.

    python benchmarks/spark.py ROOT [ROOT ...] [--messages 100000] [--bytes 256] [--rounds 3]

On a fresh folder below each ROOT, in one run: a queue streamed to Parquet, and a DataFrame written
to a queue, on two cores, start-up excluded by a small run before; medians of the rounds. The
ceilings are two processes, as many as Spark has cores, which share the messages and do nothing but
the system calls that a message needs, in a loop of Python:

    source   list; rename out of the queue, open, read seal and body, close, rename to remove; sync
    sink     create, write, write the seal, close; sync; rename into the queue; sync

By url the same is done through a server on the same file system, right after it was done by root.

`one rename` is the loop of the source without the second rename, as Spark's source removes a whole
batch at once: what no reader that takes messages one by one out of a queue can do better.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import click
from processor_time import ProcessorTime, Times
from pyspark.sql import SparkSession
from servers import Target, serving

import pyspark_mq
from mq.config import ServerConfig
from mq.disk.files import Files
from mq.ids import MessageIds
from mq.spool.message.seal import SEAL_ATTRIBUTE
from mq.spool.root import open_root

CORES = 2
FILES_FOR_A_MESSAGE = 7
"""How many files of each message there are at the end of a round."""
WARM_UP = 20_000
"""Messages: by then the JVM has compiled what each one passes through."""


class Profile(NamedTuple):
    """Who used the processors, and how long the work took."""

    spent: Mapping[str, Times]
    seconds: float


class Way(NamedTuple):
    """A root, and the options with which Spark reaches its queues."""

    root: Path
    options: dict[str, str]

    def make_queue(self) -> Path:
        queue = self.root / "queues" / f"q{uuid.uuid4().hex[:8]}"
        queue.mkdir()
        return queue


class Bench:
    """What is measured below one folder: on a root without a server, and on one by url."""

    def __init__(
        self, spark: Any, folder: Path, messages: int, length: int, server: Target
    ) -> None:
        self.spark = spark
        self.folder = folder
        self.root = folder / "root"
        self.messages = messages
        self.length = length
        self.by_root = Way(self.root, {"root": str(self.root)})
        [(host, port)] = server.addresses
        url = {"url": f"http://{host}:{port}", "staging": str(folder / "staging")}
        self.by_url = Way(folder / "served", url)
        self.profiles: dict[str, Profile] = {}
        self._pids = (os.getpid(), *server.pids)
        self._ids = MessageIds(time.time_ns)
        open_root(self.root, ServerConfig().mode, Files())[0].close()

    def write(self, way: Way, queue: Path, messages: int) -> None:
        """Write a DataFrame to the queue."""
        rows = self.spark.range(0, messages, 1, CORES).selectExpr(
            f"repeat('x', {self.length}) value"
        )
        writer = rows.write.format("mq").options(**way.options).option("queue", queue.name)
        writer.mode("append").save()
        assert len(os.listdir(queue)) == messages

    def read(self, way: Way, queue: Path) -> None:
        """Stream from the queue to Parquet, until it is empty."""
        source = self.spark.readStream.format("mq").options(**way.options)
        source = source.option("queue", queue.name).option("group", queue.name)
        writer = source.load().writeStream.format("parquet")
        writer = writer.option("path", str(self.folder / f"lake-{queue.name}"))
        writer = writer.option("checkpointLocation", str(self.folder / f"checkpoint-{queue.name}"))
        writer.trigger(availableNow=True).start().awaitTermination()
        assert os.listdir(queue) == []

    def create_files(self, queue: Path, messages: int) -> None:
        """Create files alone, which is the ceiling of the sink."""
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
        """Read files alone, which is the ceiling of the source."""
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
        """Return messages per second, as medians."""
        for way in (self.by_root, self.by_url):
            warm = way.make_queue()
            self.write(way, warm, WARM_UP)
            self.read(way, warm)
        measured = []
        for _ in range(rounds):
            measured.append(self._measure_once())
            self._reap()
        return {what: median(each[what] for each in measured) for what in measured[0]}

    def _measure_once(self) -> dict[str, float]:
        """Measure once. What is compared comes one right after the other."""
        plain, other = self.by_root.make_queue(), self.by_root.make_queue()
        queue, served = self.by_root.make_queue(), self.by_url.make_queue()
        write, read = partial(self.write, messages=self.messages), self.read
        return {
            "create files": self._rate(lambda: self.create_files(plain, self.messages)),
            "sink": self._profiled("sink", lambda: write(self.by_root, queue)),
            "sink by url": self._profiled("sink by url", lambda: write(self.by_url, served)),
            "read files": self._rate(lambda: self.read_files(plain, 2)),
            "source": self._profiled("source", lambda: read(self.by_root, queue)),
            "source by url": self._profiled("source by url", lambda: read(self.by_url, served)),
            "one rename": self._one_rename(other),
        }

    def _reap(self) -> None:
        """Make room for the next round."""
        done = (self.root / "remove", self.by_url.root / "remove")
        for path in [each for folder in done for each in folder.iterdir()]:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _one_rename(self, queue: Path) -> float:
        self.create_files(queue, self.messages)
        return self._rate(lambda: self.read_files(queue, 1))

    def _profiled(self, what: str, work: Callable[[], None]) -> float:
        with ProcessorTime(self._pids) as spent:
            rate = self._rate(work)
        self.profiles[what] = Profile(spent.by_kind(), self.messages / rate)
        return rate

    def _rate(self, work: Callable[[], None]) -> float:
        started = time.monotonic()
        work()
        return self.messages / (time.monotonic() - started)


def on_every_core(work: Callable[[int], None]) -> None:
    """Do the work in as many processes as there are cores, each with the number of its share."""
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
    if sum(os.waitpid(child, 0)[1] for child in children):
        raise click.ClickException("the files could not be written or read; see above")


def require_inodes(root: Path, messages: int) -> None:
    """Raise ClickException if the file system has too few inodes for a run."""
    found = os.statvfs(root)
    needed = (messages + WARM_UP) * FILES_FOR_A_MESSAGE
    # A file system that makes inodes when it needs them says that it has none at all.
    if found.f_files and found.f_favail < needed:
        raise click.ClickException(
            f"{root}: the file system has {found.f_favail:,} free inodes, and this run needs "
            f"{needed:,}; choose fewer --messages, or a file system with more inodes (df -i)"
        )


def print_rates(root: Path, rate: dict[str, float]) -> None:
    """Print what was measured as two tables."""
    print(f"\n{root}, messages a second:\n")
    print("| | by root | its ceiling | of it | by url | of by root |")
    print("|---|---|---|---|---|---|")
    for what, ceiling in (("source", "read files"), ("sink", "create files")):
        by_root, by_url = rate[what], rate[f"{what} by url"]
        print(
            f"| {what} | {by_root:.0f} | {rate[ceiling]:.0f} | {by_root / rate[ceiling]:.0%} "
            f"| {by_url:.0f} | {by_url / by_root:.0%} |"
        )
    print(f"\none rename: {rate['one rename']:.0f}")


def print_profiles(profiles: Mapping[str, Profile], messages: int) -> None:
    """Print who used the processors, in the last round."""
    kinds = ("driver", "JVM", "tasks", "server")
    print("\nMicroseconds of a processor for each message, user + system; then of the clock:\n")
    print(f"| | {' | '.join(kinds)} | in all | clock |")
    print("|---" * (len(kinds) + 3) + "|")
    for what, profile in profiles.items():
        cells = [profile.spent.get(kind, Times()) for kind in kinds]
        micros = 1e6 / messages
        shown = [f"{each.user * micros:.0f} + {each.system * micros:.0f}" for each in cells]
        in_all = sum(each.user + each.system for each in cells) * micros
        print(f"| {what} | {' | '.join(shown)} | {in_all:.0f} | {profile.seconds * micros:.0f} |")


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
    """Print tables for each root."""
    for root in roots:
        require_inodes(root, messages)
    spark = make_session()
    for root in roots:
        folder = Path(tempfile.mkdtemp(dir=root, prefix="mq-bench-"))
        try:
            with serving(folder / "served") as server:
                bench = Bench(spark, folder, messages, length, server)
                rate = bench.measure(rounds)
        finally:
            shutil.rmtree(folder)
        print_rates(root, rate)
        print_profiles(bench.profiles, messages)
    spark.stop()


if __name__ == "__main__":
    main()
