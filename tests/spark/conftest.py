"""One Spark session for all tests here; what must die runs in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mq.config import ServerConfig
from mq.names import MessageId, MessageIds, QueueName
from mq.spool.files import Files
from mq.spool.root import open_root
from tests.messages import seal_of, write_message

IN_MEMORY = Path("/dev/shm")

IS_INSTALLED = importlib.util.find_spec("pyspark") is not None

# test_installed.py says so, and why.
collect_ignore_glob = [] if IS_INSTALLED else ["test_[!i]*.py"]


TIMEOUT_SECONDS = 400
"""A JVM starts within seconds, but on a machine with other work within minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of this folder's tests, those that say nothing else."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS), append=True)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two cores, 1 GiB; a task is tried four times. Nothing is registered: Spark finds the source
    by itself."""
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
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={warehouse}",
    }
    session = SparkSession.builder.master("local[2,4]").appName("tests").config(map=settings)
    made = session.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()
    gateway = made.sparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)


class Root:
    """A root without a server, into which tests put messages as a server would leave them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ids = MessageIds(time.time_ns)
        open_root(path, ServerConfig().mode, Files())[0].close()

    def make(self, *queues: str) -> None:
        for queue in queues:
            (self.path / "queues" / queue).mkdir(exist_ok=True)

    def put(self, queue: str, *bodies: bytes, folder: str = "queues", **seal: int) -> list[str]:
        """Messages that are ready, or in another folder; returns their ids."""
        self.make(queue)
        return [self._put(QueueName(queue), body, folder, seal) for body in bodies]

    def _put(self, queue: QueueName, body: bytes, folder: str, seal: dict[str, int]) -> MessageId:
        message_id = self._ids.next()
        name = f"{queue}/{message_id}" if folder == "queues" else f"{queue}:{message_id}"
        sealed = seal_of(body, **{"published_ns": time.time_ns()} | seal)
        write_message(self.path / folder / name, body, seal=sealed)
        return message_id

    def names(self, folder: str) -> list[str]:
        """Every file below a folder, relative to it."""
        top = self.path / folder
        return sorted(
            str(Path(parent, name).relative_to(top))
            for parent, _, names in os.walk(top)
            for name in names
            if not name.startswith(".")
        )


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
def start_driver(lone_root: Root) -> Iterator[Callable[..., Any]]:
    """`start_driver(numPartitions="2")` is what Spark's driver runs, without Spark."""
    from pyspark_mq.driver import Driver
    from pyspark_mq.options import STREAM_READ, parse_options

    started: list[Any] = []

    def start(**options: str) -> Any:
        given = {"root": str(lone_root.path), "queue": "orders", "group": "lake"} | options
        driver = Driver(parse_options(given, STREAM_READ))
        started.append(driver)
        driver.begin()
        driver.fence()
        return driver

    yield start
    for driver in started:
        driver.close()
