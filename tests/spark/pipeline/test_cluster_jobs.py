"""The commands of mq-pipeline by `spark-submit`, on executors that are processes of their own: by
count and by checksum each message arrives once, as it does with a local Spark."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyarrow import parquet

from mq.client import Client
from tests.spark.pipeline.commands import checksum
from tests.support.packages import JAVA_OPTIONS
from tests.support.processes import Server
from tests.support.sources import REPOSITORY
from tests.support.spark_cluster import SPARK_HOME, Cluster, cluster_environment

pytestmark = [pytest.mark.crash_long, pytest.mark.timeout(1800)]

LOCAL_CLUSTER = "local-cluster[2,1,1024]"
"""A master and two workers in the driver's JVM, each with one executor of 1 GiB."""
SUBMIT_SECONDS = 1700
"""Beside other work on the machine ten minutes were not enough."""
ROWS = [b'{"number":%d}' % number for number in range(2000)]

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.memory": "1g",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.locality.wait": "0",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.sql.shuffle.partitions": "4",
}


@pytest.fixture
def server(root: Path, start_server: Callable[..., Server]) -> Server:
    """A server with the queues `orders` and `again`."""
    made = start_server(root=root)
    with Client(made.url) as mq:
        mq.queue("orders").create()
        mq.queue("again").create()
    return made


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[str]:
    """The address of a standalone master with two workers."""
    cluster = Cluster(tmp_path)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


def submit(master: str, folder: Path, *place: str) -> str:
    """Run all jobs, and return the last line of what they print."""
    (folder / "rows.jsonl").write_bytes(b"\n".join(ROWS))
    settings = [f"--conf={name}={value}" for name, value in _SETTINGS.items()]
    program = [f"{REPOSITORY}/tests/spark/cluster/jobs.py", str(folder), *place]
    done = subprocess.run(
        [SPARK_HOME / "bin/spark-submit", f"--master={master}", *settings, *program],
        check=False, capture_output=True, text=True, cwd=folder, timeout=SUBMIT_SECONDS,
        env=cluster_environment(folder) | {"SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return str(done.stdout.splitlines()[-1])


def assert_each_once(server: Server, folder: Path) -> None:
    """Every row is in the lake once and in `again` once, and `orders` is empty."""
    tables = [parquet.read_table(file) for file in folder.glob("lake/queue=*/day=*/*.parquet")]
    archived = [value for table in tables for value in table["value"].to_pylist()]
    with Client(server.url) as mq:
        again: list[bytes] = []
        while some := mq.queue("again").receive_many(1000, visibility=600):
            again += [each.body for each in some]
        assert mq.queue("orders").counts()[1:4] == (0, 0, 0)
    assert len(archived) == len(again) == len(ROWS)
    assert checksum(archived) == checksum(again) == checksum(ROWS)
    assert '"again"' in (folder / "report.html").read_text()


def test_the_jobs_run_on_a_local_cluster(server: Server, tmp_path: Path) -> None:
    told = submit(LOCAL_CLUSTER, tmp_path, f"--root={server.root}")

    assert told == f"executors 0,1, master {LOCAL_CLUSTER}"
    assert_each_once(server, tmp_path)


def test_the_jobs_run_on_a_local_cluster_by_url(server: Server, tmp_path: Path) -> None:
    staging = tmp_path / "staging"

    told = submit(LOCAL_CLUSTER, tmp_path, f"--url={server.url}", f"--staging={staging}")

    assert told == f"executors 0,1, master {LOCAL_CLUSTER}"
    assert_each_once(server, tmp_path)
    left = [staging / folder for folder in ("in/queues", "in/delay", "out/queues", "out/delay")]
    assert [path for folder in left for path in folder.rglob("*") if path.is_file()] == []


def test_the_jobs_run_on_a_standalone_master_with_two_workers(
    standalone: str, server: Server, tmp_path: Path
) -> None:
    told = submit(standalone, tmp_path, f"--root={server.root}")

    assert told == f"executors 0,1, master {standalone}"
    assert_each_once(server, tmp_path)
