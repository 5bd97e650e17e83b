"""Frameworks for tasks on a gateway: Celery with kombu's transport, Dramatiq, taskiq."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateways import CREDENTIALS, make_url, name_of
from tests.support.mqctl import without_ours
from tests.support.processes import Server, wait_until
from tests.support.sources import REPOSITORY

APP = "tests.support.sqs_tasks"
PATIENCE_SECONDS = 60


class SqsWorkers:
    """Workers of Celery; they end with the test, and so do their children."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "worker.log"
        self._workers: list[subprocess.Popen[bytes]] = []

    def start(self, app: str, folder: Path, environment: dict[str, str]) -> None:
        celery = [sys.executable, "-m", "celery", "-A", app, "worker", "-l", "INFO", "-c", "1"]
        with self.log.open("ab") as log:
            self._workers.append(
                subprocess.Popen(
                    celery, stdout=log, stderr=log, cwd=folder,
                    env=environment | {"TMPDIR": str(self.log.parent)},  # A kill leaves files.
                    start_new_session=True,
                )
            )  # fmt: skip

    def kill(self) -> None:
        for worker in self._workers:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait(PATIENCE_SECONDS)

    def wait_for(self, is_done: Callable[[], bool]) -> None:
        worker = self._workers[-1]
        wait_until(lambda: is_done() or worker.poll() is not None, PATIENCE_SECONDS)
        assert is_done(), self.log.read_text()[-5000:]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[SqsWorkers]:
    pytest.importorskip("pycurl", reason="pip install celery[sqs]")
    workers = SqsWorkers(tmp_path)
    yield workers
    workers.kill()


def environment(**more: str) -> dict[str, str]:
    """That of a program with nothing of this machine."""
    return without_ours() | CREDENTIALS | {"PYTHONWARNINGS": "ignore"} | more


def run(program: str, folder: Path, settings: dict[str, str]) -> None:
    """Run a program of Python to its end."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=settings, capture_output=True, text=True,
        timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def is_empty(sqs: Any, url: str) -> bool:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return set(found.values()) == {"0"}


def test_celery_in_ten_lines_is_as_the_document_says(
    gateway: Server, sqs: Any, workers: SqsWorkers, tmp_path: Path
) -> None:
    text = (REPOSITORY / "docs/sqs.md").read_text().split("\n## Celery\n", 1)[1]
    program = text.split("```python\n", 1)[1].split("```", 1)[0]
    assert "127.0.0.1:9324" in program
    (tmp_path / "shop.py").write_text(program.replace(":9324", f":{gateway.port}"))
    assert "celery -A shop worker" in text

    run("from shop import brew; brew.delay('two coffees')", tmp_path, environment())
    workers.start("shop", tmp_path, environment())

    workers.wait_for(lambda: "two coffees" in workers.log.read_text())
    url = sqs.get_queue_url(QueueName="celery")["QueueUrl"]
    wait_until(lambda: is_empty(sqs, url), PATIENCE_SECONDS)


@pytest.mark.parametrize("queue", ["made by Celery", "predefined"])
def test_another_worker_of_celery_does_the_task_of_one_that_was_killed(
    gateway: Server, sqs: Any, workers: SqsWorkers, tmp_path: Path, queue: str
) -> None:
    url = make_url(sqs, VisibilityTimeout="3")
    name, transport = name_of(url), {}
    if queue == "predefined":
        transport = {"predefined_queues": {name: {
            "url": url, "access_key_id": "any", "secret_access_key": "key"}}}  # fmt: skip
    else:
        sqs.delete_queue(QueueUrl=url)
    settings = environment(
        BROKER=f"sqs://any:key@127.0.0.1:{gateway.port}//", QUEUE=name, EFFECTS=str(tmp_path),
        TRANSPORT=json.dumps(transport),
    )  # fmt: skip
    run(
        f"from {APP} import *\nleave_a_file.delay('first')\nhang_once.delay('second')",
        REPOSITORY, settings,
    )  # fmt: skip
    began = tmp_path / "second.began"
    workers.start(APP, REPOSITORY, settings)
    workers.wait_for(lambda: (tmp_path / "first").exists() and began.exists())

    workers.kill()
    assert not is_empty(sqs, url)
    workers.start(APP, REPOSITORY, settings)

    workers.wait_for((tmp_path / "second").exists)
    assert (tmp_path / "second").read_text() != began.read_text()
    wait_until(lambda: is_empty(sqs, url), PATIENCE_SECONDS)


DRAMATIQ = """
import sys, threading
import dramatiq
from dramatiq_sqs import SQSBroker

broker = SQSBroker(namespace=sys.argv[2], dead_letter=True, endpoint_url=sys.argv[1],
                   tags={"by": "dramatiq"})
dramatiq.set_broker(broker)
tries, brewed, is_done = [], set(), threading.Event()


@dramatiq.actor(max_retries=3, min_backoff=1, max_backoff=1)
def brew(order):
    tries.append(order)
    if len(tries) == 1:
        raise RuntimeError("the machine is cold")
    brewed.add(order)
    if len(brewed) == 3:
        is_done.set()


for order in ("one", "two"):
    brew.send(order)
brew.send_with_options(args=("later",), delay=1000)
worker = dramatiq.Worker(broker, worker_threads=1)
worker.start()
assert is_done.wait(60), tries
worker.stop()
assert len(tries) == 4, tries
"""


def test_dramatiq_does_its_tasks_and_tries_again(gateway: Server, sqs: Any, tmp_path: Path) -> None:
    pytest.importorskip("dramatiq_sqs")
    program = tmp_path / "program.py"
    program.write_text(DRAMATIQ)

    done = subprocess.run(
        [sys.executable, str(program), gateway.url, "dramatiq"], env=environment(), cwd=tmp_path,
        capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    url = sqs.get_queue_url(QueueName="dramatiq_default")["QueueUrl"]
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"by": "dramatiq"}
    wait_until(lambda: is_empty(sqs, url), PATIENCE_SECONDS)


TASKIQ_PROGRAM = """
import asyncio, boto3, sys
from taskiq.api import run_receiver_task
from taskiq_sqs.broker import SQSBroker
from taskiq_sqs.types.queue import SQSQueue


def is_empty(sqs, url):
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return set(found.values()) == {"0"}


async def work_on(queue):
    sqs = boto3.client("sqs", endpoint_url=sys.argv[1])
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    broker = SQSBroker(SQSQueue(name=queue), endpoint_url=sys.argv[1])
    brewed = asyncio.Queue()

    @broker.task
    async def brew(order):
        await brewed.put(order)

    await broker.startup()
    worker = asyncio.create_task(run_receiver_task(broker))
    for order in ("one", "two", "three"):
        await brew.kiq(order)
    got = [await asyncio.wait_for(brewed.get(), 60) for _ in range(3)]
    async with asyncio.timeout(60):
        while not is_empty(sqs, url):
            await asyncio.sleep(0.02)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    await broker.shutdown()
    assert sorted(got) == ["one", "three", "two"], got


for queue in sys.argv[2:]:
    asyncio.run(work_on(queue))
"""


def test_taskiq_does_its_tasks_in_standard_and_fifo_queues(
    gateway: Server, sqs: Any, tmp_path: Path
) -> None:
    pytest.importorskip("taskiq_sqs")
    urls = [make_url(sqs), make_url(sqs, FifoQueue="true", ContentBasedDeduplication="true")]
    program = tmp_path / "program.py"
    program.write_text(TASKIQ_PROGRAM)

    done = subprocess.run(
        [sys.executable, str(program), gateway.url, *map(name_of, urls)],
        env=environment(), cwd=tmp_path, capture_output=True, text=True,
        timeout=2 * PATIENCE_SECONDS, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert all(is_empty(sqs, url) for url in urls)
