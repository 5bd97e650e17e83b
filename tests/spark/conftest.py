"""One Spark session for all tests here; what must die runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mq.disk.files import Files
from tests.support.lone_root import Root
from tests.support.packages import IS_SPARK_INSTALLED, JAVA_OPTIONS
from tests.support.processes import Server
from tests.support.url_site import UrlSite
from tests.support.worker_forks import worker_forks

IN_MEMORY = Path("/dev/shm")

# test_installed.py says so, and why. The rooms below import Spark too.
collect_ignore_glob = [] if IS_SPARK_INSTALLED else ["[!t]*", "test_[!i]*.py"]


CHECKPOINT_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

TIMEOUT_SECONDS = 400
"""A JVM starts within seconds, but on a machine with other work within minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give a timeout to this folder's tests that have none of their own."""
    for item in items:
        is_ours = item.path.is_relative_to(Path(__file__).parent)
        if is_ours and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """A test that fails may be one that its timeout has ended, in the middle of a call."""
    try:
        return (yield)
    except BaseException:
        if IS_SPARK_INSTALLED:
            from tests.support.jvm import leave_connection

            leave_connection()
        raise


@pytest.fixture(scope="session")
def worker_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Python of the session's workers."""
    with worker_forks(tmp_path_factory.mktemp("workers")) as python:
        yield python


@pytest.fixture(scope="session")
def spark(worker_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two cores, 1 GiB; a task is tried four times. Nothing is registered: Spark finds the source
    by itself. Its workers are forked."""
    from pyspark.sql import SparkSession

    import pyspark_mq

    pyspark_mq.prepare()
    warehouse = tmp_path_factory.mktemp("warehouse")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(warehouse),
        # The usual one starts `readlink` eight times for each file of a checkpoint.
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={warehouse} {JAVA_OPTIONS}",
    }
    session = SparkSession.builder.master("local[2,4]").appName("tests").config(map=settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", str(worker_python))
        made = session.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()
    gateway = made.sparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(30)
    except subprocess.TimeoutExpired:
        # Hooks of Spark's own, which can wait for each other. All tests are over.
        gateway.proc.kill()
        gateway.proc.wait()


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """In memory where that can be, so that no test waits for other people's writes to the disk."""
    if not os.access(IN_MEMORY, os.W_OK):
        yield tmp_path / "root"
        return
    with tempfile.TemporaryDirectory(dir=IN_MEMORY, prefix="mq-tests-") as folder:
        yield Path(folder) / "root"


@pytest.fixture
def lone_root(root: Path) -> Root:
    """A root with the queue `orders`."""
    made = Root(root)
    made.make("orders")
    return made


@pytest.fixture
def site(root: Path, start_server: Callable[..., Server]) -> Iterator[UrlSite]:
    """A server with the root, and a staging beside it."""
    made = UrlSite(start_server("--visibility=3600", root=root), root.parent / "staging")
    yield made
    made.mq.close()


@pytest.fixture
def start_driver(lone_root: Root) -> Iterator[Callable[..., Any]]:
    """`start_driver(numPartitions="2")` is what Spark's driver runs, without Spark; it may be given
    `Files` first."""
    from pyspark_mq.options.options import STREAM_READ, parse_options
    from pyspark_mq.reading.driver import Driver

    started: list[Any] = []

    def start(files: Files | None = None, **options: str) -> Any:
        given = {"root": str(lone_root.path), "queue": "orders", "group": "lake"} | options
        driver = Driver(parse_options(given, STREAM_READ), files)
        started.append(driver)
        driver.begin()
        driver.fence()
        return driver

    yield start
    for driver in started:
        driver.close()
