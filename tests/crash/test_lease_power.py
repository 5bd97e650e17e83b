"""What is taken or prolonged out of `delay` outlives a power cut: only its attributes change, and
no folder. On real file systems, each cut off as soon as the call has returned."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import CalledProcessError

import pytest

from mq.store.by_id import Guard
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from tests.crash.cuts.disks import WAYS, CutDisk
from tests.support.messages import SECOND_NS, read_seal
from tests.support.stores import ORDERS, publish, receive, store_on

HOST_MEGABYTES = 2000
FIRST_SECONDS, THEN_SECONDS = 100.0, 5000.0

MakeDisk = Callable[[str], CutDisk]
Deed = Callable[[Store, Received], Awaitable[Received]]


@pytest.fixture
def make_disk(loop_mount: Callable[..., Path], tmp_path: Path) -> Iterator[MakeDisk]:
    made: list[CutDisk] = []

    def make(kind: str) -> CutDisk:
        made.append(CutDisk(kind, loop_mount("xfs", HOST_MEGABYTES), tmp_path / "cut"))
        return made[-1]

    yield make
    for disk in made:
        with suppress(CalledProcessError):
            disk.discard()


async def heartbeat(store: Store, taken: Received) -> Received:
    guard = Guard(frozenset({taken.lease}))
    return await store.take(ORDERS, taken.message_id, THEN_SECONDS, guard)


async def take_over(store: Store, taken: Received) -> Received:
    return await store.take(ORDERS, taken.message_id, THEN_SECONDS)


@pytest.mark.parametrize("deed", [heartbeat, take_over])
@pytest.mark.parametrize("size", [4, 600_000])
@pytest.mark.parametrize("kind", sorted(WAYS))
async def test_lease_that_was_answered_outlives_a_power_cut(
    make_disk: MakeDisk, kind: str, size: int, deed: Deed
) -> None:
    disk = make_disk(kind)
    root = disk.path / "root"
    async with store_on(root) as store:
        await publish(store, b"b" * size)
        taken = await receive(store, seconds=FIRST_SECONDS)
        taken.close(store._work.files)
        os.sync()

        answered = await deed(store, taken)
        disk.copy()

        answered.close(store._work.files)
    disk.unmount()
    disk.mount()
    leased = root / "delay" / f"orders:{answered.message_id}"
    seal = read_seal(leased)
    assert (seal.lease, seal.receive_count) == (answered.lease, answered.receive_count)
    assert leased.stat().st_mtime_ns == answered.visible_ns
    assert answered.visible_ns > time.time_ns() + FIRST_SECONDS * SECOND_NS
