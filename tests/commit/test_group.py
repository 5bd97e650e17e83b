"""Group commit: one barrier for all who wait, and what a failed one means."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import pytest

from mq.commit import committer_thread
from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation
from mq.errors import QueueNotFound, StoreUnavailable
from mq.lifecycle import Folder
from tests.support.commits import Bench


async def test_what_gathers_while_a_barrier_runs_shares_the_next(bench: Bench) -> None:
    gate = await bench.hold_barrier()
    tasks = bench.start(*(str(number) for number in range(50)))
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(*tasks)

    assert bench.rounds == 2
    assert bench.files.calls["sync_file_system"] == 1


async def test_lone_operation_waits_for_nobody(bench: Bench) -> None:
    gate = await bench.hold_barrier()

    assert bench.names() == ["first"]
    assert bench.syncs_when_calls_ended == [0]  # nothing is held while the disk is waited for
    gate.open()


async def test_round_wakes_the_loop_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    wake_ups = []
    loop = asyncio.get_running_loop()
    call_soon_threadsafe = loop.call_soon_threadsafe

    def count(callback: Callable[..., Any], *arguments: Any) -> asyncio.Handle:
        wake_ups.append(callback)
        return call_soon_threadsafe(callback, *arguments)

    monkeypatch.setattr(loop, "call_soon_threadsafe", count)
    gate = await bench.hold_barrier()
    tasks = bench.start(*(str(number) for number in range(50)))
    await asyncio.sleep(0)
    gate.open()

    assert await asyncio.gather(*tasks) == [str(number) for number in range(50)]
    assert len(wake_ups) == 2


async def test_few_are_synced_one_by_one(bench: Bench) -> None:
    await bench.committer.run(bench.put("1"))

    assert bench.files.calls["sync"] == 2
    assert bench.files.calls["sync_file_system"] == 0


async def test_folder_of_a_queue_is_synced(bench: Bench) -> None:
    def touch(folder: str) -> Operation[None]:
        yield Unsynced((), (folder,))

    await bench.committer.run(touch("queues/orders"))
    assert bench.files.calls["sync"] == 1

    await bench.committer.run(touch("queues/gone"))
    assert bench.files.calls["sync_file_system"] == 1


async def test_round_has_a_limit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer_thread, "MAX_ROUND_OPERATIONS", 4)
    gate = await bench.hold_barrier()
    tasks = bench.start(*(str(number) for number in range(10)))
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(*tasks)

    assert bench.rounds == 1 + 3


async def test_operation_that_yields_twice_is_durable_before_each_next_step(bench: Bench) -> None:
    syncs: list[int] = []

    def twice() -> Operation[str]:
        yield Unsynced((), (Folder.NEW,))
        syncs.append(bench.files.syncs())
        yield Unsynced((), (Folder.DELAY,))
        syncs.append(bench.files.syncs())
        return "done"

    gate = await bench.hold_barrier()
    others = bench.start("1", "2")
    task = asyncio.create_task(bench.committer.run(twice()))
    await asyncio.sleep(0)
    gate.open()

    assert await task == "done"
    assert await asyncio.gather(*others) == ["1", "2"]
    assert bench.rounds == 3
    assert syncs[0] < syncs[1]


async def test_operation_that_leaves_nothing_unsynced_costs_no_barrier(bench: Bench) -> None:
    def look() -> Operation[int]:
        return 7
        yield

    assert await bench.committer.run(look()) == 7
    assert bench.files.syncs() == 0


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (QueueNotFound("gone"), QueueNotFound),
        (OSError(errno.EMFILE, "Too many open files"), StoreUnavailable),
        (ZeroDivisionError(), ZeroDivisionError),
    ],
)
async def test_operation_that_fails_alone_fails_alone(
    bench: Bench, error: Exception, raised: type[Exception]
) -> None:
    def fail() -> Operation[None]:
        raise error
        yield

    gate = await bench.hold_barrier()
    tasks = [*bench.start("1"), asyncio.create_task(bench.committer.run(fail())), *bench.start("2")]
    await asyncio.sleep(0)
    gate.open()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert [outcomes[0], type(outcomes[1]), outcomes[2]] == ["1", raised, "2"]
