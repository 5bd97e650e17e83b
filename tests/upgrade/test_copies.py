"""A live root is copied, and the copy opened beside the original: what docs/backup.md says of
each way. No request is under way at the moment of the copy, except where the processes are stopped
for it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mq.fsck.check import Check, mend
from mq.names import MessageId, QueueName
from mq.spool.network_files import files_for
from mq.store.moving.move import Moving
from mq.store.store import Store
from tests.crash.load import LoadClient, client_of, create_queue
from tests.support.mounts import LoopMount
from tests.support.processes import Server, wait_until
from tests.support.stores import ORDERS, body_of, publish, publish_as, receive, store_on

BODIES = [f"body {number}".encode() for number in range(12)]
_RSYNC_VANISHED = {23, 24}
"""24 if a file has gone, 23 if that comes while its attributes are read."""

LEASED, REMOVED, RECEIVED_LATER = 4, 2, 3
Copy = Callable[[Path, Path], None]


def _rsync(source: Path, target: Path) -> None:
    if shutil.which("rsync") is None:
        pytest.skip("needs rsync (Debian: rsync)")
    subprocess.run(["rsync", "-aX", f"{source}/", f"{target}/"], check=True)


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def _link(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-al", str(source), str(target)], check=True)


def _snapshot(source: Path, target: Path) -> None:
    command = ["btrfs", "-q", "subvolume", "snapshot", str(source.parent), str(target.parent)]
    subprocess.run(command, check=True)


@pytest.fixture
def on_btrfs(tmp_path: Path) -> Iterator[Path]:
    if shutil.which("mkfs.btrfs") is None or shutil.which("mount") is None:
        pytest.skip("needs mkfs.btrfs and mount (Debian: btrfs-progs, mount)")
    try:
        mounted = LoopMount("btrfs", tmp_path, 128)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root mounts a file system")
    subvolume = mounted.path / "live"
    subprocess.run(["btrfs", "-q", "subvolume", "create", str(subvolume)], check=True)
    yield subvolume / "root"
    mounted.unmount()


async def _drained(store: Store) -> dict[MessageId, bytes]:
    found = {}
    while (received := await store.receive(ORDERS, 1000)) is not None:
        assert received.message_id not in found
        found[received.message_id] = await body_of(store, received)
    return found


async def _check(root: Path, target: Path, copy: Copy, later: Copy | None = None) -> None:
    """Copy in the middle of the work, go on with it, and open the copy (or a copy of it)."""
    async with store_on(root) as store:
        ids = [await publish(store, body) for body in BODIES]
        early = [await receive(store) for _ in range(LEASED)]
        for each in early[:REMOVED]:
            await store.remove(ORDERS, each.message_id, frozenset({each.lease}))
        copy(root, target)
        for each in early[REMOVED:]:
            await store.remove(ORDERS, each.message_id, frozenset({each.lease}))
        late = [await receive(store) for _ in range(RECEIVED_LATER)]
        if later is not None:
            target, linked = target.with_name("copied"), target
            later(linked, target)

        async with store_on(target) as restored:
            found = await _drained(restored)
            hidden = {path.name.removeprefix("orders:") for path in (target / "delay").iterdir()}

        # All that were ready then come; those under a lease then keep it; the removed do not come.
        assert found == dict(zip(ids[LEASED:], BODIES[LEASED:], strict=True))
        assert hidden - found.keys() == set(ids[REMOVED:LEASED])
        for each in late:  # What happens in the copy disturbs nobody at the original.
            await store.remove(ORDERS, each.message_id, frozenset({each.lease}))
        assert await _drained(store) == dict(
            zip(ids[LEASED + RECEIVED_LATER :], BODIES[LEASED + RECEIVED_LATER :], strict=True)
        )


@pytest.mark.parametrize("copy", [_copy, _rsync])
async def test_copy_beside_the_original_gives_what_was_there(root: Path, copy: Copy) -> None:
    await _check(root, root.with_name("copy"), copy)


async def test_copy_by_hard_links_is_copied_before_it_is_opened(root: Path) -> None:
    await _check(root, root.with_name("linked"), _link, _copy)


async def test_snapshot_beside_the_original_gives_what_was_there(on_btrfs: Path) -> None:
    await _check(on_btrfs, on_btrfs.parent.with_name("snapshot") / "root", _snapshot)


class Answered:
    """What clients were told, and asked for."""

    def __init__(self) -> None:
        self.published: set[str] = set()
        self.unwanted: set[str] = set()
        self.removed: set[str] = set()

    async def go_on(self, client: LoadClient, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            for _ in range(3):
                self.published.add((await client.publish(b"body")).message_id)
            received = await client.receive()
            if received.status == 200:
                self.unwanted.add(received.message_id)
                assert (await client.remove(received.message_id)).status == 202
                self.removed.add(received.message_id)


class ByLinks:
    """Hard links are made while the processes are stopped, and copied afterwards."""

    def before(self, root: Path, target: Path) -> None:
        pass

    def while_stopped(self, root: Path, target: Path) -> None:
        _link(root, root.with_name("linked"))

    def after(self, root: Path, target: Path) -> None:
        linked = root.with_name("linked")
        _copy(linked, target)
        shutil.rmtree(linked)


class ByTwoCopies:
    """All is copied before, and once more, what has changed, while the processes are stopped."""

    def before(self, root: Path, target: Path) -> None:
        if shutil.which("rsync") is None:
            pytest.skip("needs rsync (Debian: rsync)")
        done = subprocess.run(["rsync", "-aX", f"{root}/", f"{target}/"], check=False)
        assert done.returncode in {0, *_RSYNC_VANISHED}

    def while_stopped(self, root: Path, target: Path) -> None:
        subprocess.run(["rsync", "-aX", "--delete", f"{root}/", f"{target}/"], check=True)

    def after(self, root: Path, target: Path) -> None:
        pass


@pytest.mark.parametrize("way", [ByLinks(), ByTwoCopies()], ids=["by links", "by two copies"])
async def test_copy_while_the_processes_are_stopped_under_load_has_what_was_answered(
    root: Path, start_server: Callable[..., Server], way: ByLinks | ByTwoCopies
) -> None:
    target = root.with_name("copy")
    server, answered, stopping = start_server(root=root), Answered(), asyncio.Event()
    await create_queue(server)

    async def work() -> None:
        async with client_of(server) as client:
            await answered.go_on(client, stopping)

    async with asyncio.TaskGroup() as load:
        for _ in range(8):
            load.create_task(work())
        while len(answered.removed) < 30:
            await asyncio.sleep(0)
        await asyncio.to_thread(way.before, root, target)
        # From here on the clients wait too: they are tasks of this thread.
        server.popen.send_signal(signal.SIGSTOP)
        wait_until(lambda: _is_stopped(server))
        way.while_stopped(root, target)
        wanted, removed = answered.published - answered.unwanted, set(answered.removed)
        server.popen.send_signal(signal.SIGCONT)
        way.after(root, target)
        stopping.set()

    async with store_on(target) as restored:
        there = {*map(str, await _drained(restored))}
        there |= {name.rpartition(":")[2] for name in os.listdir(target / "delay")}
    assert wanted - there == set()
    assert removed & there == set()


def _is_stopped(server: Server) -> bool:
    tasks = Path(f"/proc/{server.popen.pid}/task").glob("*/stat")
    return {task.read_text().rpartition(")")[2].split()[0] for task in tasks} == {"T"}


async def test_copy_that_is_not_one_instant_is_mended_before_it_is_opened(root: Path) -> None:
    """One that was made while messages moved, folder by folder: what is there twice stays where it
    is furthest on its way."""
    target = root.with_name("copy")
    async with store_on(root) as store:
        ids = [await publish(store, body) for body in BODIES]
        _copy(root, target)
        received = [await receive(store) for _ in range(LEASED)]
        for each in received[:REMOVED]:
            await store.remove(ORDERS, each.message_id, frozenset({each.lease}))
        for folder in ("delay", "remove"):
            shutil.rmtree(target / folder)
            _copy(root / folder, target / folder)

    list(Check(target, files_for(target), mend, lambda *_: None, settle_seconds=0).run())

    async with store_on(target) as restored:
        assert await _drained(restored) == dict(zip(ids[LEASED:], BODIES[LEASED:], strict=True))
        for each in received[REMOVED:]:
            await restored.remove(ORDERS, each.message_id, frozenset({each.lease}))


async def test_server_says_that_a_root_has_a_copy_by_hard_links(root: Path) -> None:
    with capture_logs() as logs:
        async with store_on(root):
            pass
    assert "hard links" not in str(logs)

    _link(root, root.with_name("linked"))
    with capture_logs() as logs:
        async with store_on(root):
            pass

    assert "the file format has 2 names" in str(logs)


async def test_copy_in_place_of_the_original_says_what_came_since(root: Path) -> None:
    """What was removed after the copy comes again, and what was published after it is gone."""
    async with store_on(root) as store:
        old, kept = [await publish(store, body) for body in (b"old", b"kept")]
        _copy(root, root.with_name("copy"))
        await store.remove(ORDERS, old)
        await publish(store, b"later")
    root.rename(root.with_name("lost"))
    root.with_name("copy").rename(root)

    async with store_on(root) as store:
        assert await _drained(store) == {old: b"old", kept: b"kept"}
        new = await publish(store, b"new")
    assert new > kept


async def test_copy_knows_the_ids_of_producers_though_its_queues_are_new(root: Path) -> None:
    """What is dead or purged is older than the folder of its queue there."""
    dead, purged, alive = map(MessageId, ("dead", "purged", "alive"))
    target, graveyard = root.with_name("copy"), QueueName("orders.dead")
    async with store_on(root) as store:
        await store.create_queue(graveyard)
        for each in (dead, purged):
            await publish_as(store, b"body", message_id=each)
        await store.move_by_id(Moving(ORDERS, graveyard, "max-receives"), [dead])
        await store.purge(ORDERS)
        await publish_as(store, b"body", message_id=alive)
    _copy(root, target)

    async with store_on(target) as restored:
        await restored.move_by_id(Moving(ORDERS, graveyard, "max-receives"), [alive])

        for each in (dead, purged, alive):
            assert (await publish_as(restored, b"body", message_id=each)).is_duplicate


async def test_copy_knows_the_id_of_what_was_leased_then(root: Path) -> None:
    """Its mtime is the end of its lease, which is later than the copy."""
    own, target, graveyard = MessageId("own"), root.with_name("copy"), QueueName("orders.dead")
    async with store_on(root) as store:
        await store.create_queue(graveyard)
        await publish_as(store, b"body", message_id=own)
        await receive(store)
    target.mkdir(0o700)
    for each in ("delay", "format", "new", "queues", "remove"):
        _copy(root / each, target / each)

    async with store_on(target) as restored:
        await restored.move_by_id(Moving(ORDERS, graveyard, "max-receives"), [own])

        assert (await publish_as(restored, b"body", message_id=own)).is_duplicate
