"""Two servers and two movers on two mounts of one folder, each of which sees late what was done
through the other, with and without lost replies."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mq.fsck.duplicate import Duplicate
from mq.fsck.suspect import SuspectPlace
from mq.lifecycle import Actor, Folder
from mq.names import MessageId
from mq.spool.network_files import files_for
from mq.spool.root import visit_root
from tests.crash.load import create_queue
from tests.hosts.caching import CachingMounts, Mount
from tests.hosts.load import HostLoad
from tests.soak.checker import judge
from tests.soak.history import Given, left_there
from tests.support.processes import Process, Server
from tests.support.redelivery import redeliver
from tests.support.stores import ORDERS, publish, publish_as, receive, store_on

CHANGES_ON_LOST = 20
SHORT_MESSAGES = 200
LONG_SECONDS = 1000.0
LONG_MESSAGES = int(os.environ.get("MQ_HOSTS_MESSAGES", "20000"))


class MountedProcesses:
    """A server and a mover on each of two mounts."""

    def __init__(self, mounts: CachingMounts, processes: list[Process], logs: Path) -> None:
        self._roots = [mount / "root" for mount in mounts.mounts]
        self._backing = mounts.folder / "root"
        self._processes, self._logs = processes, logs
        self.servers = [self._start_server(number) for number in (0, 1)]
        self._movers = [self._start_mover(number) for number in (0, 1)]

    def _start_server(self, number: int) -> Server:
        log = self._logs / f"mq-{number}.log"
        server = Server(self._roots[number], "--peers=1", log=log)
        self._processes.append(server)
        return server

    def _start_mover(self, number: int) -> Process:
        root = self._roots[number]
        folders = (f"--source={root}/delay", f"--destination={root}/queues")
        mover = Process("mq_mover", *folders, log=self._logs / f"mover-{number}.log")
        self._processes.append(mover)
        return mover

    def kill_a_mover(self, number: int) -> None:
        """The next one looks at everything when it starts: also at what was received with a lost
        reply, of which no event tells."""
        self._movers[number].kill()
        self._movers[number] = self._start_mover(number)

    def left(self) -> list[Given]:
        found = []
        for folder in ("new", "queues", "delay", "corrupt"):
            for path in (self._backing / folder).rglob("*"):
                if path.is_file():
                    message_id = path.name.rpartition(":")[2]
                    found.append(Given(message_id, path.read_text()))
        return found

    def defects(self) -> list[str]:
        lines = [line for log in self._logs.glob("*.log") for line in log.read_text().splitlines()]
        return [line for line in lines if "Traceback" in line or "level=error" in line]


async def _under_load(sites: MountedProcesses, load: HostLoad, pause_seconds: float) -> None:
    """A mover is killed and started again from time to time."""
    await create_queue(sites.servers[0])
    under_load = asyncio.ensure_future(load.run(seconds=3600))
    number = 0
    while not (await asyncio.wait([under_load], timeout=pause_seconds))[0]:
        await asyncio.to_thread(sites.kill_a_mover, number)
        number = 1 - number
    await under_load


def _load_on(sites: MountedProcesses, messages: int) -> HostLoad:
    addresses = [("127.0.0.1", server.port) for server in sites.servers]
    return HostLoad(addresses, messages, visibility_seconds=2, forgotten=0.02, prolonged=0.02)


async def test_nothing_is_lost_doubled_or_back(
    mount: Mount, tmp_path: Path, processes: list[Process]
) -> None:
    sites = MountedProcesses(mount(CHANGES_ON_LOST), processes, tmp_path)
    load = _load_on(sites, SHORT_MESSAGES)

    await _under_load(sites, load, 2.5)

    assert judge([*load.history, left_there(sites.left())], ordered=()) == []
    assert load.unsure == set()
    assert (sites.left(), sites.defects()) == ([], [])


@pytest.mark.crash_long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("changes_on_lost", [0, CHANGES_ON_LOST])
async def test_nothing_is_lost_doubled_or_back_for_longer(
    mount: Mount, tmp_path: Path, processes: list[Process], changes_on_lost: int
) -> None:
    sites = MountedProcesses(mount(changes_on_lost), processes, tmp_path)
    load = _load_on(sites, LONG_MESSAGES)

    await _under_load(sites, load, 20)

    assert judge([*load.history, left_there(sites.left())], ordered=()) == []
    assert load.unsure == set()
    assert (sites.left(), sites.defects()) == ([], [])


@pytest.fixture
def opened() -> Iterator[Callable[[Path], int]]:
    """`opened(path)` is a descriptor of that folder."""
    fds: list[int] = []

    def open_one(path: Path) -> int:
        fds.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
        return fds[-1]

    yield open_one
    for fd in fds:
        os.close(fd)


def test_a_name_is_cached_and_asked_for(mount: Mount, opened: Callable[[Path], int]) -> None:
    one, two = mount(0, LONG_SECONDS).mounts
    files, fd = files_for(two), opened(two)
    (one / "old").write_text("message")
    assert ((two / "old").exists(), (two / "new").exists()) == (True, False)

    os.rename(one / "old", one / "new")

    assert ((two / "old").exists(), (two / "new").exists()) == (True, False)
    assert (files.exists(fd, "old"), files.exists(fd, "new")) == (False, True)


def test_a_reply_is_lost_and_recognised(mount: Mount, opened: Callable[[Path], int]) -> None:
    """What the layer does to a plain process, and what MQ makes of it."""
    path = mount(1).mounts[0]
    files, fd = files_for(path), opened(path)
    (path.parent / "folder" / "plain").write_text("message")
    with pytest.raises(FileNotFoundError):
        os.rename(path / "plain", path / "old")
    with pytest.raises(FileExistsError):
        os.mkdir(path / "made")
    assert sorted(os.listdir(path)) == ["made", "old"]

    files.rename(fd, "old", fd, "new")
    files.make_folder(fd, "folder", 0o700)
    files.remove_folder(fd, "made")
    message = files.open_message(fd, "new")
    files.link(message, fd, "second")
    files.close(message)
    files.unlink(fd, "new")

    assert sorted(os.listdir(path)) == ["folder", "second"]


async def test_message_that_the_other_mount_took_is_given_to_nobody(mount: Mount) -> None:
    """A server that has the name in its cache, and knows of the message from a listing."""
    roots = [path / "root" for path in mount(0, LONG_SECONDS).mounts]
    async with store_on(roots[0], files_for(roots[0])) as one:
        message_id = await publish(one, b"body")
        async with store_on(roots[1], files_for(roots[1])) as other:
            assert (roots[1] / "queues" / ORDERS / message_id).exists()
            lease = (await receive(one)).lease

            assert (roots[1] / "queues" / ORDERS / message_id).exists()
            assert await other.receive(ORDERS, 1000) is None
            await one.remove(ORDERS, message_id, frozenset({lease}))


async def test_a_mover_asks_how_long_a_message_is_hidden(mount: Mount) -> None:
    """What it has in its cache is from before the other mount began a longer lease."""
    roots = [path / "root" for path in mount(0, LONG_SECONDS).mounts]
    async with store_on(roots[0], files_for(roots[0])) as store:
        message_id = await publish(store, b"body")
        await receive(store, seconds=1)
        there = roots[1] / "delay" / f"{ORDERS}:{message_id}"
        before = there.stat().st_mtime_ns
        await store.take(ORDERS, message_id, 1000)
        assert there.stat().st_mtime_ns == before, "it is not cached"

        redeliver(roots[1], seconds_later=100)

        assert there.exists()
        assert os.listdir(roots[0] / "queues" / ORDERS) == []


async def test_of_settings_that_are_changed_through_both_mounts_none_is_lost(mount: Mount) -> None:
    """What the second server has in its cache is from before the first one's last change."""
    roots = [path / "root" for path in mount(0, LONG_SECONDS).mounts]
    both = [store_on(root, files_for(root)) for root in roots]
    async with both[0] as one, both[1] as other:
        await one.change_settings(ORDERS, {"delay": "5"})
        assert (await other.read_settings(ORDERS)).delay_seconds == 5
        await one.change_settings(ORDERS, {"ttl": "60"})

        await other.change_settings(ORDERS, {"visibility": "7"})

        found = await one.read_settings(ORDERS)
    assert (found.delay_seconds, found.ttl_seconds, found.visibility_seconds) == (5, 60, 7)


async def test_a_batch_that_a_host_has_left_sealed_is_known_to_the_other(mount: Mount) -> None:
    """The second server has seen `new` without a batch, and keeps that."""
    mounts = mount(0, LONG_SECONDS)
    root = mounts.mounts[1] / "root"
    async with store_on(root, files_for(root)) as store:
        for _ in range(2):
            await publish_as(store, b"known", message_id=MessageId("known"))
        batch = mounts.folder / "root" / "new" / f".{ORDERS}:{uuid.uuid4()}"
        batch.mkdir()
        (batch / f"{ORDERS}:own").write_bytes(b"body")

        again = await publish_as(store, b"body", message_id=MessageId("own"))

    assert again.is_duplicate


async def test_what_was_purged_through_one_mount_is_known_to_the_other(mount: Mount) -> None:
    """The second server has seen that nothing was purged, and keeps that."""
    roots = [path / "root" for path in mount(0, LONG_SECONDS).mounts]
    both = [store_on(root, files_for(root)) for root in roots]
    async with both[0] as one, both[1] as other:
        await publish_as(other, b"known", message_id=MessageId("known"))
        await publish_as(one, b"body", message_id=MessageId("own"))
        await one.purge(ORDERS)

        again = await publish_as(other, b"body", message_id=MessageId("own"))

    assert again.is_duplicate


async def test_fsck_leaves_a_message_that_the_other_mount_moves_meanwhile(mount: Mount) -> None:
    """It was leased, is ready now, and is still in the cache under its name in `delay`."""
    mounts = mount(0, LONG_SECONDS)
    roots = [path / "root" for path in mounts.mounts]
    async with store_on(roots[0], files_for(roots[0])) as store:
        message_id = await publish(store, b"body")
        await receive(store)
    leased, ready = f"{ORDERS}:{message_id}", f"{ORDERS}/{message_id}"
    spool = visit_root(roots[1], files_for(roots[1]), Actor.FSCK)
    there = mounts.folder / "root"
    duplicate = Duplicate(
        spool, SuspectPlace(Folder.QUEUES, ready), SuspectPlace(Folder.DELAY, leased)
    )
    exists = spool.exists

    def exist_and_go(folder: Folder, name: str) -> bool:
        is_there = exists(folder, name)
        if (there / "delay" / leased).exists():
            os.rename(there / "delay" / leased, there / "queues" / ready)
        return is_there

    with closing(spool), pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "exists", exist_and_go)
        assert (roots[1] / "delay" / leased).exists()

        assert duplicate.look() is None
        assert duplicate.mend() is None

    assert (there / "queues" / ready).read_bytes() == b"body"
