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
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from tests.conftest import Server, wait_until
from tests.spark.clients import Clients
from tests.spark.dying.sitecustomize import LARGE_CLAIM, SINK, SOURCE, processes_of, states_of
from tests.tidy.sources import REPOSITORY

SHORT = {
    "lake": ["in the middle of a claim", "between floor and removal"],
    "copy": ["after the seal, before the offset log", "while it is rolled forward"],
}  # fmt: skip
LONG = {"lake": list(SOURCE), "copy": list(SINK)}
SLEEPING = {
    "lake": [
        "in the middle of a claim",
        "after the seal, before the offset log",
        "during the read",
    ],
    "copy": ["while a task stages", "before the transaction", "after the transaction"],
}
LARGE = 3000
RANDOM_KILLS = 12
MOST_SECONDS_TO_LIVE = 8.0

_numbers = count(1)

pytestmark = pytest.mark.timeout(600)


class Application:
    """One process tree, in a session of its own."""

    def __init__(
        self,
        kind: str,
        root: Path,
        folder: Path,
        die_at: str = "",
        limit: int = 20,
        **environment: str,
    ) -> None:
        self.mark = folder / f"mark-{next(_numbers)}"
        self.started = folder / "started"
        self.started.unlink(missing_ok=True)
        self.log = folder / "application.log"
        dying = REPOSITORY / "tests/spark/dying"
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                [sys.executable, dying / "application.py", kind, root, folder, str(limit)],
                stdout=log, stderr=log, cwd=folder, start_new_session=True,
                env=os.environ | {"PYTHONPATH": f"{dying}:{REPOSITORY}", "MQ_DIE_AT": die_at,
                                  "MQ_DIE_MARK": str(self.mark)} | environment,
            )  # fmt: skip

    def wait(self) -> int:
        """Its exit code, when nothing of it runs any more."""
        code = self.popen.wait(480)
        wait_until(lambda: not processes_of(self.popen.pid), 60)
        return code

    def sleeps(self) -> bool:
        return set(states_of(self.popen.pid).values()) == {"T"}

    def wake(self) -> None:
        for pid in processes_of(self.popen.pid):
            os.kill(pid, signal.SIGCONT)

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
    application = Application(kind, root, folder, step, LARGE if step == LARGE_CLAIM else 20)
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


def sleep_at(step: str, kind: str, root: Path, folder: Path) -> None:
    """It sleeps there while another one does all there is to do, batch after batch; then it wakes,
    and finds that it is not wanted any more."""
    sleeper = Application(kind, root, folder, step, MQ_SLEEPS="1")
    try:
        wait_until(lambda: sleeper.sleeps() or sleeper.popen.poll() is not None, 240)
        assert sleeper.mark.exists(), f"{step}: it never came there"
        run_to_the_end(kind, root, folder, limit=400)
        sleeper.wake()
        assert sleeper.wait() != 0
    finally:
        sleeper.kill()


def run_to_the_end(kind: str, root: Path, folder: Path, limit: int = 1_000_000) -> None:
    application = Application(kind, root, folder, limit=limit)
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
        if step == LARGE_CLAIM:
            clients.publish_many(LARGE)
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


@pytest.mark.crash_long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["lake", "copy"])
def test_an_application_that_was_thought_dead_adds_nothing_when_it_comes_back(
    kind: str, root: Path, tmp_path: Path, clients: Clients
) -> None:
    for step in SLEEPING[kind]:
        sleep_at(step, kind, root, tmp_path)

    assert_each_once(kind, root, tmp_path, clients)
