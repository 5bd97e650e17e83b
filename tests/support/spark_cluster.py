"""A standalone cluster of Spark with two hosts, both of them this machine: 127.0.0.1 and 127.0.0.2.
Spark runs the second attempt of a slow task on another host than the first, so with one it never
does."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pyspark

from pyspark_mq.environment import find_settings
from tests.support.processes import wait_until
from tests.support.sources import REPOSITORY

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
HOSTS = ("127.0.0.1", "127.0.0.2")
START_SECONDS = 240

SPARK_HOME = Path(pyspark.__file__).parent


class Cluster:
    """A master and a worker on each host, with one core and 1 GiB."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment = cluster_environment(folder)

    def start(self) -> str:
        """Start the cluster. Returns the master's URL, when every worker is there."""
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
        command[0] = f"{SPARK_HOME}/bin/spark-class"
        with path.open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [*command, *arguments], stdout=log, stderr=log, start_new_session=True,
                    env=self._environment | {"SPARK_LOCAL_IP": host}, cwd=self._folder,
                )
            )  # fmt: skip
        return path

    def stop(self) -> None:
        """Stop the cluster. A worker takes its executors along."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(60)


def cluster_environment(folder: Path) -> dict[str, str]:
    """Return what a cluster's daemons and its application need to find Java, Spark and this
    package."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return given | find_settings(os.environ) | {
        "SPARK_HOME": str(SPARK_HOME),
        "PYTHONPATH": str(REPOSITORY),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false -XX:TieredStopAtLevel=1",
        "SPARK_LOCAL_DIRS": str(folder / "spark"),
    }  # fmt: skip
