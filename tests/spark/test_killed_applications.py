"""The whole application dies by SIGKILL, at named steps and at random, while a producer publishes
over HTTP and consumers receive from the same queue: each message is in the sink once, or with one
consumer. Clients' logs are the judge."""

from __future__ import annotations

import http.client
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.spark.clients import Clients
from tests.spark.dying.sitecustomize import (
    LARGE_CLAIM,
    SINK,
    SINK_BY_URL,
    SOURCE,
    SOURCE_BY_URL,
)
from tests.support.applications import Application
from tests.support.processes import Process, Server, start_mover, wait_until

SHORT = [("lake", "between floor and removal")]
"""A source dies once and, by URL, a sink: each death costs two starts of Spark. `make crash` has
them all."""

LONG = {"lake": list(SOURCE), "copy": list(SINK)}
SHORT_BY_URL = [("copy", "after a batch is published")]
LONG_BY_URL = {
    "lake": [*SOURCE_BY_URL, *SOURCE],
    "copy": [*SINK_BY_URL, *SINK],
}
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

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def clients(
    root: Path, start_server: Callable[..., Server], processes: list[Process]
) -> Iterator[Clients]:
    """On a server with the queues `orders` and `copies`, and a mover. No lease of a consumer runs
    out in a test, so what it was given it removes."""
    server = start_server("--visibility=3600", root=root)
    processes.append(start_mover(root))
    for queue in ("orders", "copies"):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("PUT", f"/{queue}")
        assert connection.getresponse().status == 201
        connection.close()
    made = Clients(server)
    yield made
    if not made._stopping.is_set():
        made.stop()


def die_at(step: str, kind: str, place: Path | str, folder: Path) -> None:
    application = Application(kind, place, folder, step, LARGE if step == LARGE_CLAIM else 20)
    try:
        code = application.wait()
        assert application.mark.exists(), f"{step}: it never came there"
        assert code == -signal.SIGKILL
    finally:
        application.kill()


def kill_at_random(kind: str, place: Path | str, folder: Path) -> bool:
    """Once Spark is there, which takes longer than all that follows. False if it ended before."""
    application = Application(kind, place, folder)
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


def run_to_the_end(kind: str, place: Path | str, folder: Path, limit: int = 1_000_000) -> None:
    application = Application(kind, place, folder, limit=limit)
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


def assert_each_once(
    kind: str, root: Path, folder: Path, clients: Clients, url: str | None = None
) -> None:
    """Assert that each message is in the sink or with a consumer, and that there are some of
    both."""
    clients.stop()
    # What a killed intake had fetched and not staged comes back when its lease is over.
    wait_until(lambda: url is None or not list((root / "delay").iterdir()), 60)
    run_to_the_end(kind, url or root, folder)
    written = bodies_in_sink(kind, root, folder)
    assert len(written) > 20
    assert clients.consumed
    assert sorted(written + clients.consumed) == sorted(clients.published)
    assert list((root / "queues/orders").iterdir()) == []
    claims = (folder / "staging/in" if url else root) / "spark/claims/lake"
    assert claims.exists()
    assert list(claims.glob("*.open.*")) == []


@pytest.mark.parametrize(("kind", "step"), SHORT)
def test_an_application_killed_at_a_step_reads_and_writes_each_message_once(
    kind: str, step: str, root: Path, tmp_path: Path, clients: Clients
) -> None:
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


@pytest.mark.parametrize(("kind", "step"), SHORT_BY_URL)
def test_an_application_by_url_killed_at_a_step_reads_and_writes_each_message_once(
    kind: str, step: str, root: Path, tmp_path: Path, clients: Clients
) -> None:
    die_at(step, kind, clients.url, tmp_path)

    assert_each_once(kind, root, tmp_path, clients, clients.url)


@pytest.mark.crash_long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["lake", "copy"])
def test_an_application_by_url_killed_at_every_step_reads_and_writes_each_message_once(
    kind: str, root: Path, tmp_path: Path, clients: Clients
) -> None:
    for step in LONG_BY_URL[kind]:
        if step == LARGE_CLAIM:
            clients.publish_many(LARGE)
        die_at(step, kind, clients.url, tmp_path)

    assert_each_once(kind, root, tmp_path, clients, clients.url)


@pytest.mark.crash_long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["lake", "copy"])
def test_an_application_by_url_killed_at_random_reads_and_writes_each_message_once(
    kind: str, root: Path, tmp_path: Path, clients: Clients
) -> None:
    killed = sum(kill_at_random(kind, clients.url, tmp_path) for _ in range(RANDOM_KILLS))

    assert killed > RANDOM_KILLS / 2
    assert_each_once(kind, root, tmp_path, clients, clients.url)
