"""Celery's own worker, in processes of its own, on a real server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from mq.client import Client, NewMessage
from tests.support.mqctl import without_ours
from tests.support.processes import Server, wait_until
from tests.support.sources import REPOSITORY

TASKS = 500
APP = "tests.support.celery_tasks"
DOCUMENT = REPOSITORY / "docs/celery.md"
STOP_SECONDS = 90
"""A pool of processes may wait 30 seconds for a result that Celery has let go: docs/celery.md."""


@pytest.fixture
def server(start_server: Callable[..., Server]) -> Server:
    return start_server("--standalone")


class CeleryRun:
    """Workers and producers of the app of the tests; they end with the test."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.effects = folder / "effects"
        self.effects.mkdir()
        self._temporary = folder  # A worker that is killed leaves files.
        self.log = folder / "worker.log"
        self._broker = server.url.replace("http://", "mq://")
        self.workers: list[subprocess.Popen[bytes]] = []

    def environment(self) -> dict[str, str]:
        ours = {"BROKER": self._broker, "EFFECTS": str(self.effects), "PYTHONWARNINGS": "ignore",
                "TMPDIR": str(self._temporary)}  # fmt: skip
        return without_ours() | ours

    def start_worker(
        self, *flags: str, app: str = APP, folder: Path = REPOSITORY
    ) -> subprocess.Popen[bytes]:
        """In a process group of its own, so that a kill takes its children along."""
        celery = [sys.executable, "-X", "faulthandler", "-m", "celery", "-A", app]
        with self.log.open("ab") as log:
            worker = subprocess.Popen(
                [*celery, "worker", "-l", "INFO", *flags], stdout=log, stderr=log, cwd=folder,
                env=self.environment(), start_new_session=True,
            )  # fmt: skip
        self.workers.append(worker)
        return worker

    def run(self, program: str) -> None:
        """Run a program in a process that has imported all of the app."""
        program = f"from {APP} import *\n{program}"
        done = subprocess.run(
            [sys.executable, "-c", program], check=False, cwd=REPOSITORY, env=self.environment(),
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def celery(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "celery", "-A", APP, *arguments],
            check=False, cwd=REPOSITORY, env=self.environment(), capture_output=True, text=True,
            timeout=60,
        )  # fmt: skip

    def done(self) -> set[str]:
        return set(os.listdir(self.effects))

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.done()) >= count or self._has_ended(), 60)
        assert len(self.done()) >= count, self.log.read_text()[-5000:]

    def _has_ended(self) -> bool:
        return self.workers[-1].poll() is not None

    def stop(self, worker: subprocess.Popen[bytes]) -> None:
        """SIGTERM, for a warm shutdown; a worker that hangs shows where."""
        worker.terminate()
        try:
            code = worker.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            worker.send_signal(signal.SIGABRT)
            code = worker.wait(15)
        assert code == 0, self.log.read_text()[-8000:]

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait(15)


@pytest.fixture
def celery(server: Server, tmp_path: Path) -> Iterator[CeleryRun]:
    celery = CeleryRun(server, tmp_path)
    yield celery
    for worker in celery.workers:
        if worker.poll() is None:
            celery.kill(worker)


def counts(client: Client, queue: str = "celery") -> tuple[int, int, int]:
    _, ready, leased, delayed, _ = client.queue(queue).counts()
    return ready, leased, delayed


def test_tasks_with_retries_survive_a_kill_of_the_worker(celery: CeleryRun, server: Server) -> None:
    # Two in the middle keep both processes of the first worker until it is killed.
    celery.run(
        f"for number in range({TASKS}):\n"
        f"    if number == {TASKS // 2}: block_until.delay('gate'); block_until.delay('gate')\n"
        "    leave_a_file.delay(number)\n"
    )
    first = celery.start_worker("-c", "2", "-E")
    celery.wait_for(TASKS // 5)

    celery.kill(first)
    assert len(celery.done()) < TASKS
    (celery.effects / "gate.go").touch()
    celery.start_worker("-c", "2")

    celery.wait_for(TASKS + 3)
    assert celery.done() == {*map(str, range(TASKS)), "gate", "gate.began", "gate.go"}
    with Client(server.url) as client:
        wait_until(lambda: counts(client) == (0, 0, 0), 100)
        assert not (server.root / "queues" / "celery.dead").exists()


def test_a_worker_holds_only_what_it_works_on_and_gives_back_the_rest(
    celery: CeleryRun, server: Server
) -> None:
    """Tasks that are due later stay on the server; at its end a worker releases what it has."""
    celery.run(
        "block_until.delay('long')\n"
        "for number in range(1, 5): leave_a_file.apply_async((number,), countdown=3600)\n"
        "for number in range(10): block_until.delay('never')\n"
    )
    # In this pool the task runs in the thread of the event loop.
    worker = celery.start_worker("-P", "solo", "-c", "1", "--prefetch-multiplier", "4")
    celery.wait_for(1)
    with Client(server.url) as client:
        wait_until(lambda: counts(client) == (7, 4, 4))
        began_at = time.monotonic()
        # The leases of 3 s are renewed while the task runs.
        wait_until(lambda: time.monotonic() > began_at + 4)
        assert counts(client) == (7, 4, 4)

        worker.terminate()
        (celery.effects / "long.go").touch()
        celery.stop(worker)

        assert counts(client) == (10, 0, 4)
    assert celery.done() == {"long", "long.began", "long.go"}


def test_a_rejected_task_and_one_that_nobody_knows_are_dead_letters(
    celery: CeleryRun, server: Server
) -> None:
    celery.run("refuse.delay(); app.send_task('no.such.task')")
    celery.run("leave_a_file.apply_async((2,), serializer='pickle'); leave_a_file.delay(1)")
    with Client(server.url) as client:
        client.queue("celery").publish("not of Celery", content_type="text/plain")
    celery.start_worker("-c", "1")
    celery.wait_for(1)

    with Client(server.url) as client:
        wait_until(lambda: counts(client) == (0, 0, 0))
        assert counts(client, "celery.dead") == (3, 0, 0)


def malformed_tasks() -> list[NewMessage]:
    """Tasks that differ in one place from what Celery writes."""
    headers = {"task": f"{APP}.leave_a_file", "id": "a-1", "eta": None, "expires": None}
    body: list[object] = [[1], {}, {}]
    pairs: list[tuple[Mapping[str, object], object]] = [
        ({"task": headers["task"]}, body),
        (headers | {"task": ["a"]}, body),
        (headers | {"id": ["a"]}, body),
        (headers | {"expires": 0}, body),
        (headers, None),
        (headers, "a text"),
        (headers, [1]),
        ({}, {"task": ["a"], "id": "a-1"}),
        ({}, {"task": "unknown"}),
    ]
    rest = {"content-type": "application/json", "content-encoding": "utf-8",
            "properties": {"delivery_info": {}}}  # fmt: skip
    tasks = [{"body": json.dumps(body), "headers": headers, **rest} for headers, body in pairs]
    return [
        NewMessage(json.dumps(each), content_type="application/json")
        for each in [*tasks, tasks[-1] | {"content-encoding": 5}]
    ]


def test_a_task_that_celery_cannot_read_is_a_dead_letter_and_ends_no_worker(
    celery: CeleryRun, server: Server
) -> None:
    with Client(server.url) as client:
        client.queue("celery").create()
        ids = client.queue("celery").publish_many(malformed_tasks())
        worker = celery.start_worker("-c", "1", "--without-mingle", "--without-gossip")
        celery.run("leave_a_file.delay(1)")

        celery.wait_for(1)
        wait_until(lambda: counts(client) == (0, 0, 0), 100)
        celery.stop(worker)
        dead = client.queue("celery.dead").peek(100)
        assert {each.id for each in dead} == set(ids)
        assert f"message {ids[0]} of queue celery" in celery.log.read_text()


def test_a_task_that_has_expired_is_dropped_by_its_worker(
    celery: CeleryRun, server: Server
) -> None:
    celery.run(
        "leave_a_file.apply_async((1,), expires=0.001)\nleave_a_file.apply_async((2,), expires=600)"
    )
    celery.start_worker("-c", "1")

    celery.wait_for(1)
    with Client(server.url) as client:
        wait_until(lambda: counts(client) == (0, 0, 0))
    assert celery.done() == {"2"}


def test_tasks_of_protocol_1_wait_on_the_server_and_expire(
    celery: CeleryRun, server: Server
) -> None:
    """Their headers are in the body."""
    celery.run(
        "app.conf.task_protocol = 1\n"
        "leave_a_file.apply_async((1,), expires=0.001)\n"
        "leave_a_file.apply_async((2,), expires=600)\n"
        "leave_a_file.apply_async((3,), countdown=3600)\n"
    )
    with Client(server.url) as client:
        assert counts(client) == (2, 0, 1)
        celery.start_worker("-c", "1")

        celery.wait_for(1)
        wait_until(lambda: counts(client) == (0, 0, 1))
    assert celery.done() == {"2"}


def test_celery_purge_and_what_needs_remote_control(celery: CeleryRun, server: Server) -> None:
    celery.run("for number in range(3): leave_a_file.delay(number)")

    assert "Purged 3 messages" in celery.celery("purge", "-f", "-Q", "celery,no").stdout
    inspect = celery.celery("inspect", "ping")
    assert inspect.returncode != 0
    assert "Remote control" in inspect.stderr + inspect.stdout
    with Client(server.url) as client:
        assert counts(client) == (0, 0, 0)


def test_the_example_prints_its_result(server: Server, tmp_path: Path) -> None:
    """The program of examples, with a worker of its own."""
    environment = without_ours()
    environment["MQ_BROKER"] = server.url.replace("http://", "mq://")
    orders = tmp_path / "orders.txt"
    environment["ORDERS"] = str(orders)
    command = [sys.executable, "-m", "celery", "-A", "celery_orders"]
    examples = REPOSITORY / "examples"

    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(
            [*command, "worker", "-c", "1"], cwd=examples, env=environment, stdout=log, stderr=log
        )
    try:
        program = [sys.executable, "celery_orders.py"]
        subprocess.run(program, check=True, cwd=examples, env=environment)
        wait_until(lambda: orders.exists() and orders.read_text() == "two coffees\n", 100)
    finally:
        worker.terminate()
        assert worker.wait(STOP_SECONDS) == 0, (tmp_path / "log").read_text()


def test_the_first_task_of_the_document(celery: CeleryRun, tmp_path: Path) -> None:
    [program] = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    environment = celery.environment()
    tasks = program.replace("mq://127.0.0.1:8080", environment["BROKER"])
    (tmp_path / "tasks.py").write_text(tasks)
    [send] = re.findall(r"python3 -c '(.*)'", DOCUMENT.read_text())

    worker = celery.start_worker("-c", "1", app="tasks", folder=tmp_path)
    subprocess.run([sys.executable, "-c", send], check=True, cwd=tmp_path, env=environment)

    wait_until(lambda: "brewing two coffees" in celery.log.read_text(), 100)
    celery.stop(worker)
