"""Servers and movers of the last release are replaced one by one, under load on one root."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from mq.spool.root_format import FORMAT, read_format
from tests.crash.load import create_queue
from tests.hosts.load import HostLoad, passed_over
from tests.soak.checker import judge
from tests.soak.history import Given, left_there
from tests.support.processes import FreshServer, Process, Server, start_mover
from tests.support.sources import REPOSITORY

pytestmark = pytest.mark.crash_long

LAST_RELEASE = "35788ba"
PEERS = 1
MESSAGES = 12_000


@pytest.fixture
def last_release(tmp_path: Path) -> dict[str, str]:
    """The environment in which `python -m mq` is that of the last release."""
    command = ["git", "-C", str(REPOSITORY), "archive", LAST_RELEASE, "mq", "mq_mover"]
    try:
        archive = subprocess.run(command, check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"needs git, and a history with commit {LAST_RELEASE}")
    code = tmp_path / "last-release"
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(code, filter="data")
    environment = {"PYTHONPATH": str(code), "PYTHONSAFEPATH": "1"}
    asked = [sys.executable, "-c", "import mq; print(mq.__file__)"]
    said = subprocess.run(asked, env=environment, check=True, capture_output=True, text=True)
    assert said.stdout.startswith(str(code))
    return environment


@pytest.fixture
def started() -> Iterator[list[Process]]:
    processes: list[Process] = []
    yield processes
    for each in processes:
        each.kill()


async def test_nothing_is_lost_doubled_or_back(
    root: Path, last_release: dict[str, str], started: list[Process]
) -> None:
    def serve(number: int, port: int, **environment: str) -> Server:
        log = root.with_name(f"mq-{number}.log")
        flags = (f"--port={port}", f"--peers={PEERS}")
        server = FreshServer(root, *flags, log=log, **environment)
        started.append(server)
        return server

    servers = [serve(number, 0, **last_release) for number in range(2)]
    folders = (f"--source={root / 'delay'}", f"--destination={root / 'queues'}")
    mover = Process("mq_mover", *folders, log=root.with_name("old-mover.log"), **last_release)
    started.append(mover)
    await create_queue(servers[0])
    load = HostLoad([("127.0.0.1", each.port) for each in servers], MESSAGES)

    async def replace() -> None:
        for number, old in enumerate(servers):
            while len(load.removed) < (number + 1) * MESSAGES // 4:
                await asyncio.sleep(0.05)
            assert await asyncio.to_thread(old.stop) == 0
            await asyncio.to_thread(serve, number, old.port)
        mover.kill()
        started.append(start_mover(root))

    async with asyncio.TaskGroup() as group:
        group.create_task(replace())
        group.create_task(load.run(8, 8))

    folders_left = [root / name for name in ("new", "delay", "queues/orders")]
    files = [path for folder in folders_left for path in folder.iterdir() if path.is_file()]
    left = [Given(path.name.rpartition(":")[2], path.read_text(), "") for path in files]
    broken = [each for each in judge([*load.history, left_there(left)]) if each.kind != "reordered"]
    assert broken == []
    assert {each.message_id for each in left} <= load.unsure
    # A receive whose answer was lost hides a message.
    assert passed_over(load.history) <= PEERS + load.statuses["receive -"]
    assert read_format(root) == FORMAT
