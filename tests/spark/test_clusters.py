"""A standalone cluster of two hosts, both of them this machine: 127.0.0.1 and 127.0.0.2. Spark runs
the second attempt of a slow task on another host than the first, so with one it never does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from mq.lifecycle import Actor
from mq.spool.files import Files
from mq.spool.root import visit_root
from mq.spool.spark.transactions import sweep_transactions
from pyspark_mq.environment import find_settings
from tests.spark.cluster.application import ROWS, STRAGGLER
from tests.support.lone_root import Root
from tests.support.processes import wait_until
from tests.support.sources import REPOSITORY

pytestmark = [pytest.mark.crash_long, pytest.mark.timeout(900)]

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
HOSTS = ("127.0.0.1", "127.0.0.2")
START_SECONDS = 240


class Cluster:
    """A master and a worker on each host, with one core and 1 GiB."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment = _environment(folder)

    def start(self) -> str:
        """Returns the master's URL, when every worker is there."""
        log = self._start(MASTER, HOSTS[0])
        wait_until(lambda: MASTER_URL.search(log.read_text()), START_SECONDS)
        url = str(MASTER_URL.findall(log.read_text())[0])
        for host in HOSTS:
            work = str(self._folder / f"work-{host}")
            self._start(WORKER, host, "--cores", "1", "--memory", "1g", "--work-dir", work, url)
        wait_until(lambda: log.read_text().count("Registering worker") == len(HOSTS), START_SECONDS)
        return url

    def _start(self, daemon: str, host: str, *arguments: str) -> Path:
        path = self._folder / f"{daemon.rpartition('.')[2]}-{host}.log"
        command = ["spark-class", daemon, "--host", host, "--port", "0", "--webui-port", "0"]
        command[0] = f"{self._environment['SPARK_HOME']}/bin/spark-class"
        with path.open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [*command, *arguments], stdout=log, stderr=log, start_new_session=True,
                    env=self._environment | {"SPARK_LOCAL_IP": host}, cwd=self._folder,
                )
            )  # fmt: skip
        return path

    def stop(self) -> None:
        """A worker takes its executors along."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(60)


def _environment(folder: Path) -> dict[str, str]:
    """What a cluster's daemons and its application need to find Java, Spark and this package."""
    home = Path(pyspark.__file__).parent
    given = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return given | find_settings(os.environ) | {
        "SPARK_HOME": str(home),
        "PYTHONPATH": str(REPOSITORY),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false -XX:TieredStopAtLevel=1",
        "SPARK_LOCAL_DIRS": str(folder / "spark"),
    }  # fmt: skip


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.stop()


def hosts_of_stragglers(events: Path) -> list[tuple[str, str]]:
    """For each task that Spark started a second time because it was slow, by Spark's own log: the
    hosts of its first attempt and of the second."""
    [log] = events.iterdir()
    started = [json.loads(line) for line in log.read_text().splitlines() if "TaskStart" in line]
    first = {
        (each["Stage ID"], each["Task Info"]["Index"]): each["Task Info"]["Host"]
        for each in started
        if each["Task Info"]["Attempt"] == 0
    }
    return [
        (first[each["Stage ID"], STRAGGLER], each["Task Info"]["Host"])
        for each in started
        if each["Task Info"]["Speculative"] and each["Task Info"]["Index"] == STRAGGLER
    ]


def test_tasks_that_run_twice_and_executors_that_are_killed_write_each_message_once(
    lone_root: Root, tmp_path: Path, cluster: Cluster
) -> None:
    lone_root.make("copies", "twice")
    for folder in ("marks", "events"):
        (tmp_path / folder).mkdir()
    application = REPOSITORY / "tests/spark/cluster/application.py"

    done = subprocess.run(
        [sys.executable, application, cluster.start(), lone_root.path, tmp_path],
        check=False, capture_output=True, text=True, cwd=tmp_path, timeout=800,
        env=_environment(tmp_path),
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-4000:]
    assert_happened(tmp_path)
    sweep_after_two_days(lone_root.path)
    written = [path.read_bytes() for path in (lone_root.path / "queues/twice").iterdir()]
    assert sorted(written) == sorted(b"%d" % number for number in range(3 * ROWS))
    assert [lone_root.names(f"queues/{queue}") for queue in ("orders", "copies")] == [[], []]
    assert lone_root.names("spark/stage") == []


def sweep_after_two_days(root: Path) -> None:
    """A loser that sealed its set after the commit leaves it for a day."""
    spool = visit_root(root, Files(), Actor.SERVER)
    sweep_transactions(spool, time.time_ns() + 2 * 86_400 * 10**9)
    spool.close()


def assert_happened(folder: Path) -> None:
    """Both attempts had all their rows, on two hosts; executors died."""
    assert sorted(path.name for path in (folder / "marks").iterdir()) == [
        "a stream's attempt.0",
        "a stream's attempt.1",
        "an executor that reads",
        "an executor that writes",
        "the first attempt loses.0",
        "the first attempt loses.1",
        "the second attempt loses.0",
        "the second attempt loses.1",
    ]
    hosts = hosts_of_stragglers(folder / "events")
    assert len(hosts) >= 3
    assert {frozenset(pair) for pair in hosts} == {frozenset(HOSTS)}
