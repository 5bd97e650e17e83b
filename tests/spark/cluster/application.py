"""Work for a cluster of two hosts, in which a task runs twice or its executor is killed.

application.py MASTER ROOT FOLDER, which has the folders `marks` and `events`; the queues `orders`,
`copies` and `twice` are there.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import pyspark_mq

PARTITIONS = 4
ROWS = 200
STRAGGLER = 1
"""The partition whose first attempt does not end until its second one has come so far."""
PATIENCE_SECONDS = 120.0

Rows = Callable[[Iterator[Any]], Iterator[Any]]


def start_session(master: str, folder: Path) -> SparkSession:
    """Two executors, one on each host, each with one core."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.locality.wait": "0",
        "spark.sql.shuffle.partitions": f"{PARTITIONS}",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": str(folder / "events"),
    }
    builder = SparkSession.builder.master(master).appName("cluster").config(map=settings)
    made: SparkSession = builder.getOrCreate()
    return made


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


def straggle(name: str, marks: Path, root: Path, loser: int) -> Rows:
    """Let both attempts of one partition, 0 and 1, get all their rows; then the attempt `loser`
    ends when the other one has sealed its set."""

    def sealed() -> set[Path]:
        sets = (root / "spark/stage").glob(f"*/*/{STRAGGLER}-*")
        return {path for path in sets if not path.name.endswith(".open")}

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        # Of earlier jobs: what a loser sealed too late.
        left = sealed()
        yield from batches
        context = TaskContext.get()
        if context.partitionId() != STRAGGLER:
            return
        attempt = context.attemptNumber()
        (marks / f"{name}.{attempt}").touch()
        if attempt == loser:
            wait_for(lambda: sealed() - left)
        else:
            wait_for((marks / f"{name}.{loser}").exists)

    return rows


def die_once(name: str, marks: Path) -> Rows:
    """The executor of one partition is killed when that has written its rows, the first time."""

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        mark = marks / name
        if TaskContext.get().partitionId() == STRAGGLER and not mark.exists():
            mark.touch()
            os.kill(_executor(), signal.SIGKILL)
            time.sleep(PATIENCE_SECONDS)

    return rows


def _executor() -> int:
    """The JVM above this Python worker."""
    pid = os.getppid()
    while "java" not in os.readlink(f"/proc/{pid}/exe"):
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
    return pid


def write(spark: SparkSession, root: Path, first: int, rows: Rows) -> None:
    """Write this many rows, after a shuffle, to `orders`."""
    numbers = spark.range(first, first + ROWS, 1, PARTITIONS).repartition(PARTITIONS)
    frame = numbers.selectExpr("cast(id as string) value").mapInArrow(rows, "value string")
    frame.write.format("mq").option("root", str(root)).option("queue", "orders").mode(
        "append"
    ).save()


def read(spark: SparkSession, root: Path, queue: str, rows: Rows) -> DataFrame:
    source = spark.readStream.format("mq").option("root", str(root)).option("queue", queue)
    source = source.option("group", queue).option("numPartitions", f"{PARTITIONS}")
    return source.load().select("value").mapInArrow(rows, "value binary")


def copy(
    spark: SparkSession, root: Path, folder: Path, queues: tuple[str, str], rows: Rows
) -> None:
    """All of one queue to another, as a stream."""
    source, target = queues
    sink = read(spark, root, source, rows).writeStream.format("mq").option("root", str(root))
    sink = sink.option("queue", target).option("checkpointLocation", f"{folder}/to-{target}")
    sink.trigger(availableNow=True).start().awaitTermination()


def main(master: str, root: Path, folder: Path) -> None:
    pyspark_mq.prepare()
    spark, marks = start_session(master, folder), folder / "marks"
    write(spark, root, 0, straggle("the first attempt loses", marks, root, loser=0))
    write(spark, root, ROWS, straggle("the second attempt loses", marks, root, loser=1))
    write(spark, root, 2 * ROWS, die_once("an executor that writes", marks))
    queues = ("orders", "copies")
    copy(spark, root, folder, queues, straggle("a stream's attempt", marks, root, loser=0))
    queues = ("copies", "twice")
    copy(spark, root, folder, queues, die_once("an executor that reads", marks))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
