"""mq-pipeline as processes that are killed and interrupted, on a server that is killed too: each
message is in the lake once, and replayed once; count and checksum are the judge."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from tests.spark.dying.sitecustomize import processes_of
from tests.support.processes import Server, wait_until
from tests.support.sources import REPOSITORY
from tests.support.url_site import UrlSite

MESSAGES = 3000
BATCH = 300

pytestmark = pytest.mark.timeout(900)


class Command:
    """One run of mq-pipeline, in a session of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.log = folder / "mq-pipeline.log"
        with self.log.open("wb") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "pyspark_mq.pipeline", *arguments],
                stdout=log, stderr=log, cwd=folder, start_new_session=True,
                env=os.environ | {"PYTHONPATH": f"{REPOSITORY}", "SPARK_DRIVER_MEMORY": "1g"},
            )  # fmt: skip

    def wait(self) -> int:
        """Its exit code, when nothing of it runs any more."""
        code = self.popen.wait(480)
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
def start_command(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    started: list[Command] = []

    def start(*arguments: str) -> Command:
        started.append(Command(tmp_path, *arguments))
        return started[-1]

    yield start
    for command in started:
        command.kill()


@pytest.fixture
def site(root: Path, start_server: Callable[..., Server]) -> Iterator[UrlSite]:
    made = UrlSite(start_server(root=root), root.parent / "staging")
    yield made
    made.mq.close()


def place_of(kind: str, site: UrlSite) -> list[str]:
    if kind == "root":
        return [f"--root={site.server.root}"]
    return [f"--url={site.server.url}", f"--staging={site.staging}"]


def checksum(bodies: Iterable[bytes]) -> str:
    each = sorted(hashlib.sha256(body).digest() for body in bodies)
    return hashlib.sha256(b"".join(each)).hexdigest()


def publish(site: UrlSite) -> list[bytes]:
    bodies = [os.urandom(40) + b"%d" % number for number in range(MESSAGES)]
    site.orders.publish_many(bodies)
    return bodies


def batches_in(lake: Path) -> int:
    """The number of the last batch that is placed, from 1 on; 0 if there is none."""
    numbers = [int(path.stem.rpartition("-")[2]) for path in (lake / "_placing").glob("*.json")]
    return max(numbers, default=-1) + 1


def end_leases(site: UrlSite) -> None:
    """What a killed archive had fetched and not staged would come back in ten minutes."""
    connection = HTTPConnection("127.0.0.1", site.server.port, timeout=60)
    for path in (site.server.root / "delay").iterdir():
        connection.request("GET", f"/orders/messages?id={path.name[7:]}&visibility=0")
        assert connection.getresponse().read() is not None
    connection.close()


def in_the_lake(lake: Path) -> list[bytes]:
    files = sorted(lake.glob("queue=*/day=*/*.parquet"))
    return [
        value
        for file in files
        for value in parquet.read_table(file, columns=["value"])["value"].to_pylist()
    ]


@pytest.mark.parametrize("kind", ["url"])
def test_an_archive_that_is_killed_and_interrupted_has_each_message_once(
    kind: str, site: UrlSite, tmp_path: Path, start_command: Callable[..., Command]
) -> None:
    check_archive(kind, site, tmp_path, start_command)


@pytest.mark.crash_long
def test_an_archive_by_root_that_is_killed_and_interrupted_has_each_message_once(
    site: UrlSite, tmp_path: Path, start_command: Callable[..., Command]
) -> None:
    check_archive("root", site, tmp_path, start_command)


def check_archive(
    kind: str, site: UrlSite, tmp_path: Path, start_command: Callable[..., Command]
) -> None:
    published = publish(site)
    lake = tmp_path / "lake"
    archive = ["archive", *place_of(kind, site), "--queue=orders", f"--lake={lake}",
               f"--batch={BATCH}"]  # fmt: skip

    killed = start_command(*archive, "--continuous", "--every=0.1")
    wait_until(lambda: batches_in(lake) >= 2 or killed.popen.poll() is not None, 300)
    killed.kill()
    before = batches_in(lake)
    assert 2 <= before < MESSAGES // BATCH, killed.log.read_text()[-2000:]
    end_leases(site)

    interrupted = start_command(*archive, "--continuous", "--every=0.1")
    wait_until(lambda: batches_in(lake) > before or interrupted.popen.poll() is not None, 300)
    os.kill(interrupted.popen.pid, signal.SIGINT)
    assert interrupted.wait() == 130
    assert "interrupted: run it again to go on" in interrupted.log.read_text()

    site.orders.publish(b"the last one")
    last = start_command(*archive)
    assert last.wait() == 0, last.log.read_text()[-4000:]

    archived = in_the_lake(lake)
    assert len(archived) == MESSAGES + 1
    assert checksum(archived) == checksum([*published, b"the last one"])
    assert site.orders.counts()[1:4] == (0, 0, 0)


def restart(site: UrlSite, start_server: Callable[..., Server]) -> None:
    site.server.kill()
    start_server(f"--port={site.server.port}", root=site.server.root)


@pytest.mark.parametrize("kind", ["url", pytest.param("root", marks=pytest.mark.crash_long)])
def test_a_load_that_is_killed_and_run_again_publishes_each_row_once(
    kind: str,
    site: UrlSite,
    tmp_path: Path,
    start_command: Callable[..., Command],
    start_server: Callable[..., Server],
) -> None:
    lines = [f'{{"number":{number}}}' for number in range(MESSAGES)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    load = ["load", *place_of(kind, site), "--to=orders", "--format=json", "rows.jsonl"]

    killed = start_command(*load)
    wait_until(lambda: has_begun(kind, site) or killed.popen.poll() is not None, 300)
    killed.kill()
    restart(site, start_server)
    again = start_command(*load)
    assert again.wait() == 0, again.log.read_text()[-4000:]
    third = start_command(*load)
    assert third.wait() == 0, third.log.read_text()[-4000:]

    assert "was done before" in third.log.read_text()
    received: list[Any] = []
    while some := site.orders.receive_many(1000, visibility=600):
        received += some
    assert checksum(each.body for each in received) == checksum(map(str.encode, lines))
    assert len(received) == MESSAGES


def has_begun(kind: str, site: UrlSite) -> bool:
    """Something of it is staged, or at the server."""
    top = site.server.root if kind == "root" else site.staging / "out"
    return any((top / "spark/stage").glob("*/*/*"))
