"""Small file systems that run out of inodes or turn read-only under load, and back."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.crash.faults.service import RELIEF_SECONDS
from tests.crash.load import LoadClient, client_of, create_queue, put_load_on
from tests.support.processes import Server, wait_until
from tests.support.wire import Wire, WireAnswer

StartServer = Callable[..., Server]

_INODES = 128


def _use_up_inodes(folder: Path) -> None:
    folder.mkdir()
    with suppress(OSError):
        for number in range(10 * _INODES):
            (folder / str(number)).touch()


def test_no_inodes_refuse_publish_alone_and_service_returns(
    start_server: StartServer, loop_mount: Callable[..., Path]
) -> None:
    """The floor is off: the kernel itself says that there are none."""
    disk = loop_mount("ext4", 16, "-N", str(_INODES))
    server = start_server("--min-free=0", root=disk / "root")
    with closing(Wire(server.port)) as wire:
        assert wire.request("PUT", "/orders").status == 201
        published = [wire.publish("orders", b"%d" % number) for number in range(20)]
        _use_up_inodes(disk / "crowd")

        for size in (4, 200_000):
            _assert_refused(wire.request("POST", "/orders/messages", bytes(size)))
        _assert_refused(wire.request("PUT", "/returns"))
        for message_id in published:
            received = wire.receive("orders")
            assert (received.status, received.headers["x-message-id"]) == (200, message_id)
            guard = received.headers["etag"]
            assert wire.remove("orders", message_id, If_Match=guard).status == 202

        (disk / "crowd" / "0").unlink()
        _is_served_again(wire)
    assert os.listdir(disk / "root" / "new") == []


def test_full_xfs_refuses_what_it_cannot_do_and_service_returns(
    start_server: StartServer, loop_mount: Callable[..., Path]
) -> None:
    """The floor is off. A folder of xfs may need a block to take one more name, so receive and
    remove may be refused as well; ext4 mostly has one to spare (test_full_disk.py)."""
    disk = loop_mount("xfs", 320)
    server = start_server("--min-free=0", root=disk / "root")
    with closing(Wire(server.port)) as wire:
        assert wire.request("PUT", "/orders").status == 201
        published = {wire.publish("orders", b"%d" % number) for number in range(20)}
        filler = _fill(disk)

        for size in (4, 200_000):
            _assert_refused(wire.request("POST", "/orders/messages", bytes(size)))
        received = {i for _ in range(10) for i in _consume(wire)}

        filler.unlink()
        wait_until(lambda: wire.request("PUT", "/returns").status == 201, RELIEF_SECONDS)
        while more := _consume(wire):
            received |= more
        assert received == published
        assert {wire.remove("orders", i).status for i in received} == {202}
    assert os.listdir(disk / "root" / "new") == []


def test_server_that_is_killed_on_a_full_xfs_starts_again(
    start_server: StartServer, loop_mount: Callable[..., Path]
) -> None:
    """There xfs makes no file, not even one without a name."""
    disk = loop_mount("xfs", 320)
    published = _kill_a_server(start_server, disk)
    filler = _fill(disk)

    server = start_server("--standalone", root=disk / "root")

    with closing(Wire(server.port)) as wire:
        _assert_refused(wire.request("POST", "/orders/messages", b"body"))
        filler.unlink()
        _receive_until(wire, published)


def test_server_that_is_killed_where_no_inode_is_left_starts_again(
    start_server: StartServer, loop_mount: Callable[..., Path]
) -> None:
    """Its receivers make the room, and the reaper of --standalone."""
    disk = loop_mount("ext4", 16, "-N", str(_INODES))
    published = _kill_a_server(start_server, disk)
    _use_up_inodes(disk / "crowd")
    before = (disk / "root").stat()

    server = start_server("--standalone", "--keep=0", root=disk / "root")

    with closing(Wire(server.port)) as wire:
        _assert_refused(wire.request("POST", "/orders/messages", b"body"))
        _receive_until(wire, published)
        _is_served_again(wire)
    assert (disk / "root").stat().st_mtime_ns == before.st_mtime_ns


def test_floor_keeps_room_on_xfs_for_receive_and_remove(
    start_server: StartServer, loop_mount: Callable[..., Path]
) -> None:
    disk = loop_mount("xfs", 320)
    server = start_server(root=disk / "root")
    with closing(Wire(server.port)) as wire:
        assert wire.request("PUT", "/orders").status == 201
        published = {wire.publish("orders", b"%d" % number) for number in range(20)}
        filler = _fill(disk, leave_bytes=1 << 20)

        refusal = wire.request("POST", "/orders/messages", b"body")

        _assert_refused(refusal)
        assert "--min-free" in refusal.json()["detail"]
        assert {i for _ in range(20) for i in _consume(wire)} == published
        filler.unlink()
        _is_served_again(wire)


def _fill(disk: Path, leave_bytes: int = 0) -> Path:
    """Take the room there is, but for so much."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        os.posix_fallocate(file.fileno(), 0, max(free - max(leave_bytes, 1 << 20), 1))
        file.seek(0, os.SEEK_END)
        with suppress(OSError):
            while not leave_bytes and file.write(bytes(4096)):
                pass
    return filler


def _kill_a_server(start_server: StartServer, disk: Path) -> set[str]:
    """Publish some messages, and kill the server. Returns their ids."""
    server = start_server(root=disk / "root")
    with closing(Wire(server.port)) as wire:
        assert wire.request("PUT", "/orders").status == 201
        published = {wire.publish("orders", b"%d" % number) for number in range(20)}
    server.kill()
    return published


def _receive_until(wire: Wire, published: set[str]) -> None:
    received = set[str]()

    def are_received() -> bool:
        received.update(_consume(wire))
        return received == published

    wait_until(are_received)


def _consume(wire: Wire) -> set[str]:
    """Receive a message and remove it, unless that is refused; its id if it was received."""
    received = wire.receive("orders")
    if received.status == 204:
        return set()
    if received.status == 503:
        _assert_refused(received)
        return set()
    message_id = received.headers["x-message-id"]
    removal = wire.remove("orders", message_id)
    if removal.status != 202:
        _assert_refused(removal)
    return {message_id}


def _assert_refused(answer: WireAnswer) -> None:
    assert answer.status == 503
    assert int(answer.headers["retry-after"]) >= 1


def _is_served_again(wire: Wire) -> None:
    def is_published() -> bool:
        return wire.request("POST", "/orders/messages", b"after").status == 201

    wait_until(is_published, RELIEF_SECONDS)
    received = wire.receive("orders")
    assert received.body == b"after"
    assert wire.remove("orders", received.headers["x-message-id"]).status == 202


class _Load:
    """What clients were answered while the disk changed under them."""

    def __init__(self) -> None:
        self.published: set[str] = set()
        self.asked_to_remove: set[str] = set()
        self.refused: Counter[int] = Counter()
        self.ends = asyncio.Event()

    async def work(self, client: LoadClient, number: int) -> None:
        """Publish, receive, remove. Refusals are counted for each client."""
        while not self.ends.is_set():
            published = await client.publish(os.urandom(100))
            if published.status == 201:
                self.published.add(published.message_id)
            received = await client.receive()
            statuses = {published.status, received.status}
            if received.status == 200:
                self.asked_to_remove.add(received.message_id)
                statuses.add((await client.remove(received.message_id)).status)
            assert statuses <= {200, 201, 202, 204, 503}
            if 503 in statuses:
                self.refused[number] += 1
                await asyncio.sleep(0.01)

    async def all_are_refused(self, clients: int) -> None:
        before = self.refused.copy()
        async with asyncio.timeout(20):
            while any(self.refused[n] < before[n] + 3 for n in range(clients)):
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(("kind", "megabytes"), [("ext4", 24), ("xfs", 320), ("btrfs", 256)])
async def test_read_only_disk_refuses_all_and_service_returns(
    start_server: StartServer, loop_mount: Callable[..., Path], kind: str, megabytes: int
) -> None:
    disk = loop_mount(kind, megabytes)
    flags = ("--standalone", "--visibility=0.5", "--keep=0", "--min-free=0")
    server = start_server(*flags, root=disk / "root")
    await create_queue(server)
    load = _Load()
    running = asyncio.create_task(put_load_on(server, 6, load.work))

    await asyncio.to_thread(_remount, disk, "ro")
    await load.all_are_refused(6)
    async with client_of(server) as client:
        counted = await client.request("GET", "/orders")
        # A sync that came to its end on a disk that can no longer be written proves nothing.
        assert counted.status == 200 or "Read-only file system" in str(counted)
        assert (await client.request("PUT", "/returns")).status == 503
        _remount(disk, "rw")
        relieved = time.monotonic()
        while (await client.publish(b"after")).status != 201:
            assert time.monotonic() < relieved + RELIEF_SECONDS
    load.ends.set()
    await running

    left = load.published - load.asked_to_remove
    async with asyncio.timeout(20):
        await _receive_all(server, left)
    wait_until(lambda: os.listdir(disk / "root" / "remove") == [])
    assert server.popen.poll() is None


def _remount(disk: Path, how: str) -> None:
    """It is busy while any file is open to be written."""
    command = ["mount", "-o", f"remount,{how}", str(disk)]
    wait_until(
        lambda: subprocess.run(command, capture_output=True, check=False).returncode == 0, 60
    )


async def _receive_all(server: Server, left: set[str]) -> None:
    """Those too whose lease ended while nothing could be moved."""
    async with client_of(server) as client:
        while left:
            answer = await client.receive()
            if answer.status == 200:
                left.discard(answer.message_id)
                assert (await client.remove(answer.message_id)).status == 202
            else:
                await asyncio.sleep(0.01)
