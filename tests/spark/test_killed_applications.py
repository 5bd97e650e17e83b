"""The whole application dies by SIGKILL, at named steps and at random, while a producer publishes
over HTTP and consumers receive from the same queue: each message is in the sink once, or with one
consumer. Clients' logs are the judge."""

from __future__ import annotations

import http.client
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import Server, wait_until
from tests.spark.dying.sitecustomize import SINK, SOURCE, processes_of
from tests.tidy.sources import REPOSITORY

SHORT = {
    "lake": ["in the middle of a claim", "between floor and removal"],
    "copy": ["after the seal, before the offset log", "while it is rolled forward"],
}  # fmt: skip
LONG = {"lake": list(SOURCE), "copy": list(SINK)}
RANDOM_KILLS = 12
MOST_SECONDS_TO_LIVE = 8.0
PAUSE_SECONDS = 0.03

pytestmark = pytest.mark.timeout(600)


class Clients:
    """A producer and two consumers, each with a connection of its own and a log."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._stopping = threading.Event()
        self._paused = threading.Event()
        self.published: list[bytes] = []
        self.consumed: list[bytes] = []
        self.errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._run, args=(work,))
            for work in (self._publish, self._consume, self._consume)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        assert self.errors == []

    def _run(self, work: Callable[[http.client.HTTPConnection], None]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        try:
            while not self._stopping.wait(PAUSE_SECONDS):
                work(connection)
        except Exception as error:
            self.errors.append(repr(error))
        finally:
            connection.close()

    def _publish(self, connection: http.client.HTTPConnection) -> None:
        body = b"message %06d" % len(self.published)
        assert self._ask(connection, "POST", "/orders/messages", body)[0] == 201
        self.published.append(body)

    def _consume(self, connection: http.client.HTTPConnection) -> None:
        """Now and then, so that most is left to Spark."""
        self._stopping.wait(20 * PAUSE_SECONDS * random.random())
        status, message_id, body = self._ask(connection, "GET", "/orders/messages")
        if status == 200:
            path = f"/orders/messages/{message_id}"
            assert self._ask(connection, "DELETE", path)[0] == 202
            self.consumed.append(body)

    @staticmethod
    def _ask(
        connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None
    ) -> tuple[int, str, bytes]:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("X-Message-Id", ""), answer.read()


class Application:
    """One process tree, in a session of its own."""

    def __init__(
        self, kind: str, root: Path, folder: Path, die_at: str = "", limit: int = 20
    ) -> None:
        self.mark = folder / "mark"
        self.started = folder / "started"
        for mark in (self.mark, self.started):
            mark.unlink(missing_ok=True)
        self.log = folder / "application.log"
        dying = REPOSITORY / "tests/spark/dying"
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                [sys.executable, dying / "application.py", kind, root, folder, str(limit)],
                stdout=log, stderr=log, cwd=folder, start_new_session=True,
                env=os.environ | {"PYTHONPATH": f"{dying}:{REPOSITORY}", "MQ_DIE_AT": die_at,
                                  "MQ_DIE_MARK": str(self.mark)},
            )  # fmt: skip

    def wait(self) -> int:
        """Its exit code, when nothing of it runs any more."""
        code = self.popen.wait(240)
        wait_until(lambda: not processes_of(self.popen.pid), 60)
        return code

    def kill(self) -> None:
        while alive := processes_of(self.popen.pid):
            for pid in alive:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.popen.wait(60)


@pytest.fixture
def clients(root: Path, start_server: Callable[..., Server]) -> Iterator[Clients]:
    """On a server with the queues `orders` and `copies`. No lease runs out in a test, so what a
    consumer was given it removes."""
    server = start_server("--visibility=3600", root=root)
    for queue in ("orders", "copies"):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("PUT", f"/{queue}")
        assert connection.getresponse().status == 201
        connection.close()
    made = Clients(server)
    yield made
    if not made._stopping.is_set():
        made.stop()


def die_at(step: str, kind: str, root: Path, folder: Path) -> None:
    application = Application(kind, root, folder, step)
    try:
        code = application.wait()
        assert application.mark.exists(), f"{step}: it never came there"
        assert code == -signal.SIGKILL
    finally:
        application.kill()


def kill_at_random(kind: str, root: Path, folder: Path) -> bool:
    """Once Spark is there, which takes longer than all that follows. False if it ended before."""
    application = Application(kind, root, folder)
    popen = application.popen
    try:
        wait_until(lambda: application.started.exists() or popen.poll() is not None, 240)
        with suppress(subprocess.TimeoutExpired):
            popen.wait(random.uniform(0, MOST_SECONDS_TO_LIVE))
        return popen.poll() is None
    finally:
        application.kill()


def run_to_the_end(kind: str, root: Path, folder: Path) -> None:
    application = Application(kind, root, folder, limit=1_000_000)
    try:
        assert application.wait() == 0, application.log.read_text()[-4000:]
    finally:
        application.kill()


def bodies_in_sink(kind: str, root: Path, folder: Path) -> list[bytes]:
    if kind == "copy":
        return [path.read_bytes() for path in (root / "queues/copies").iterdir()]
    # By Spark's own list of what counts: a killed task leaves files that do not.
    listed = subprocess.run(
        [sys.executable, "-c", READ_LAKE, str(folder / "lake")],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [line.encode() for line in listed.stdout.splitlines()]


READ_LAKE = """
import json, pathlib, sys, urllib.parse
import pyarrow.parquet
lake = pathlib.Path(sys.argv[1])
files = set()
for log in (lake / "_spark_metadata").iterdir():
    if not log.name.startswith("."):
        files |= {json.loads(line)["path"] for line in log.read_text().splitlines()[1:]}
for file in sorted(files):
    path = urllib.parse.unquote(urllib.parse.urlsplit(file).path)
    for value in pyarrow.parquet.read_table(path, columns=["value"])["value"].to_pylist():
        print(value.decode())
"""


def assert_each_once(kind: str, root: Path, folder: Path, clients: Clients) -> None:
    """In the sink or with a consumer; some of both, or nothing was tried."""
    clients.stop()
    run_to_the_end(kind, root, folder)
    written = bodies_in_sink(kind, root, folder)
    assert len(written) > 20
    assert clients.consumed
    assert sorted(written + clients.consumed) == sorted(clients.published)
    assert list((root / "queues/orders").iterdir()) == []
    assert list((root / "spark/claims/lake").glob("*.open.*")) == []


@pytest.mark.parametrize("kind", ["lake", "copy"])
def test_an_application_killed_at_some_steps_reads_and_writes_each_message_once(
    kind: str, root: Path, tmp_path: Path, clients: Clients
) -> None:
    for step in SHORT[kind]:
        die_at(step, kind, root, tmp_path)

    assert_each_once(kind, root, tmp_path, clients)


@pytest.mark.crash_long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["lake", "copy"])
def test_an_application_killed_at_every_step_reads_and_writes_each_message_once(
    kind: str, root: Path, tmp_path: Path, clients: Clients
) -> None:
    for step in LONG[kind]:
        die_at(step, kind, root, tmp_path)

    assert_each_once(kind, root, tmp_path, clients)


@pytest.mark.crash_long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["lake", "copy"])
def test_an_application_killed_at_random_reads_and_writes_each_message_once(
    kind: str, root: Path, tmp_path: Path, clients: Clients
) -> None:
    killed = sum(kill_at_random(kind, root, tmp_path) for _ in range(RANDOM_KILLS))

    assert killed > RANDOM_KILLS / 2
    assert_each_once(kind, root, tmp_path, clients)
