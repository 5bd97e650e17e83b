"""Three servers on two hosts, with a mover on each, over GlusterFS; minutes under load."""

from __future__ import annotations

import asyncio
import os
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.hosts.gluster import GlusterHost, GlusterHosts, missing
from tests.hosts.load import QUEUE, HostLoad, passed_over
from tests.soak.checker import judge
from tests.soak.history import Given, left_there
from tests.support.processes import wait_until

pytestmark = [pytest.mark.crash_long, pytest.mark.timeout(3600)]

PORTS = (8080, 8081)
PEERS = 2
MESSAGES = int(os.environ.get("MQ_HOSTS_MESSAGES", "20000"))
CUT_OFF_SECONDS = 60
SECONDS = 3600

Trouble = Callable[["Arrangement"], Awaitable[None]]


class Arrangement:
    """Two servers and a mover on the first host, a server and a mover on the second one."""

    def __init__(self, hosts: GlusterHosts, logs: Path) -> None:
        self.first, self.second = hosts.hosts
        self._logs = logs
        self.addresses: list[tuple[str, int]] = []
        self.start(self.first, *PORTS)
        self.start(self.second, PORTS[0])

    def start(self, host: GlusterHost, *ports: int) -> None:
        root = host.mount / "root"
        for port in ports:
            host.start(
                self._logs / f"{host.name}-{port}.log", "mq", f"--root={root}", "--insecure",
                f"--address={host.address}", f"--port={port}", f"--peers={PEERS}", "--admin=",
            )  # fmt: skip
            wait_until(lambda: _answers(host, port), 60)
            if (host.address, port) not in self.addresses:
                self.addresses.append((host.address, port))
        folders = (f"--source={root}/delay", f"--destination={root}/queues")
        host.start(self._logs / f"{host.name}-mover.log", "mq_mover", *folders)

    def left(self) -> list[Given]:
        """Every message of the root, as the first host sees it."""
        root = str(self.first.mount / "root")
        found = []
        for path in self.first.output("find", root, "-type", "f", "-printf", "%P ").split():
            if path.startswith(("new/", "delay/", "corrupt/", "queues/")):
                message_id = path.replace(":", "/").rpartition("/")[2]
                found.append(Given(message_id, self.first.output("cat", f"{root}/{path}"), ""))
        return found


def _answers(host: GlusterHost, port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://{host.address}:{port}/", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@pytest.fixture
def arrangement(tmp_path: Path) -> Iterator[Arrangement]:
    why = missing()
    if why is not None:
        pytest.skip(why)
    hosts = GlusterHosts(tmp_path)
    try:
        yield Arrangement(hosts, tmp_path)
    finally:
        hosts.close()


async def _nothing(arrangement: Arrangement) -> None:
    pass


async def _cut_off_and_heal(arrangement: Arrangement) -> None:
    await asyncio.to_thread(arrangement.second.cut_off)
    await asyncio.sleep(CUT_OFF_SECONDS)
    await asyncio.to_thread(arrangement.second.reconnect)


async def _kill_and_start(arrangement: Arrangement) -> None:
    await asyncio.to_thread(arrangement.second.kill_ours)
    await asyncio.to_thread(arrangement.start, arrangement.second, PORTS[0])


@pytest.mark.parametrize("trouble", [_nothing, _cut_off_and_heal, _kill_and_start])
async def test_nothing_is_lost_doubled_or_back(arrangement: Arrangement, trouble: Trouble) -> None:
    address, port = arrangement.addresses[0]
    request = urllib.request.Request(f"http://{address}:{port}/{QUEUE}", method="PUT")
    await asyncio.to_thread(urllib.request.urlopen, request)
    load = HostLoad(arrangement.addresses, MESSAGES)

    async def make_trouble() -> None:
        while len(load.removed) < MESSAGES // 20:
            await asyncio.sleep(0.1)
        await trouble(arrangement)

    async with asyncio.TaskGroup() as group:
        group.create_task(make_trouble())
        group.create_task(load.run(seconds=SECONDS))
    left = await asyncio.to_thread(arrangement.left)

    broken = judge([*load.history, left_there(left)], ordered=(), keep_seconds=60)
    assert broken == []
    assert {each.message_id for each in left} <= load.unsure
    if trouble is _nothing:
        assert load.unsure == set()
        assert passed_over(load.history) <= PEERS
