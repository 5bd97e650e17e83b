"""A cluster of two executors on this machine, one of which is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.conftest import Root
from tests.tidy.sources import REPOSITORY

pytestmark = [pytest.mark.crash_long, pytest.mark.timeout(600)]

PREPARE = """
import os, signal, sys, time, pathlib
from pyspark import TaskContext
from pyspark.sql import SparkSession
import pyspark_mq

pyspark_mq.prepare()
root, marks = sys.argv[1], pathlib.Path(sys.argv[2])
settings = {
    "spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
}
spark = SparkSession.builder.master("local-cluster[2,1,1024]").config(map=settings).getOrCreate()
frame = spark.range(0, 200, 1, 4).selectExpr("cast(id as string) value").repartition(4)


def first_try(name):
    try:
        (marks / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def parent_of(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])
"""

KILLS_AN_EXECUTOR = """
def rows(batches):
    yield from batches
    if TaskContext.get().partitionId() == 1 and first_try("killed"):
        executor = parent_of(os.getpid())
        while "java" not in os.readlink(f"/proc/{executor}/exe"):
            executor = parent_of(executor)
        os.kill(executor, signal.SIGKILL)
        time.sleep(60)
"""

WRITE = """
writer = frame.mapInArrow(rows, "value string").write.format("mq").option("root", root)
writer.option("queue", "orders").mode("append").save()
spark.stop()
"""


def test_an_executor_that_is_killed_after_it_wrote_writes_each_row_once(
    lone_root: Root, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()

    done = subprocess.run(
        [sys.executable, "-c", PREPARE + KILLS_AN_EXECUTOR + WRITE, lone_root.path, marks],
        check=False, capture_output=True, text=True, cwd=tmp_path, timeout=500,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY),
                          "SPARK_WORKER_DIR": str(tmp_path / "work")},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-4000:]
    assert (marks / "killed").exists()
    written = [path.read_bytes() for path in (lone_root.path / "queues/orders").iterdir()]
    assert sorted(written) == sorted(str(number).encode() for number in range(200))
    assert lone_root.names("spark/stage") == []
