"""Group commit: one barrier for all who wait, and what a failed one means."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mq import commit
from mq.barrier import SyncBarrier, Unsynced
from mq.commit import GroupCommitter, MemoryCommitter
from mq.errors import QueueNotFound, StoreUnavailable
from mq.lifecycle import Folder
from mq.operation import Operation
from mq.spool.folders import Spool
from tests.faults import SYNCS, Gate, SuspiciousFiles, WatchedFiles
from tests.messages import names_in


class Bench:
    """A committer over a spool, with the operations that the tests run on it."""

    def __init__(self, spool: Spool, files: WatchedFiles) -> None:
        self.spool = spool
        self.files = files
        self.batches = 0
        self.syncs_when_calls_ended: list[int] = []
        self.committer = GroupCommitter(
            SyncBarrier(spool), self._begin, self._end_calls, spool.reopen
        )

    def _begin(self) -> None:
        self.batches += 1

    def _end_calls(self) -> None:
        self.syncs_when_calls_ended.append(self.files.syncs())

    def put(self, name: str) -> Operation[str]:
        """Make a file in `new`; taken back if it cannot be made durable."""
        files, new = self.files, self.spool.fd(Folder.NEW)
        fd = files.open_unnamed(new, 0o600)
        try:
            files.link(fd, new, name)
            try:
                yield Unsynced((fd,), (Folder.NEW,))
            except StoreUnavailable:
                files.unlink(new, name)
                raise
            return name
        finally:
            files.close(fd)

    def start(self, *names: str) -> list[asyncio.Task[str]]:
        return [asyncio.create_task(self.committer.run(self.put(name))) for name in names]

    async def hold_barrier(self) -> Gate:
        """Let one operation, `first`, come as far as its barrier."""
        gate = self.files.hold_back(*SYNCS)
        self.start("first")
        await gate.reached()
        return gate

    def names(self) -> list[str]:
        return names_in(self.spool.root / "new")


@pytest.fixture
def files() -> WatchedFiles:
    return SuspiciousFiles()


@pytest.fixture
async def bench(spool: Spool, files: WatchedFiles) -> AsyncIterator[Bench]:
    async with _bench(spool, files) as made:
        yield made


@asynccontextmanager
async def _bench(spool: Spool, files: WatchedFiles) -> AsyncIterator[Bench]:
    files.calls.clear()
    made = Bench(spool, files)
    try:
        yield made
    finally:
        await made.committer.close()
        assert isinstance(files, SuspiciousFiles)
        assert files.retried == []


# Batches


async def test_what_gathers_while_a_barrier_runs_shares_the_next(bench: Bench) -> None:
    gate = await bench.hold_barrier()
    tasks = bench.start(*(str(number) for number in range(50)))
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(*tasks)

    assert bench.batches == 2
    assert bench.files.calls["sync_file_system"] == 1


async def test_lone_operation_waits_for_nobody(bench: Bench) -> None:
    gate = await bench.hold_barrier()

    assert bench.names() == ["first"]
    assert bench.syncs_when_calls_ended == [0]  # nothing is held while the disk is waited for
    gate.open()


async def test_batch_wakes_the_loop_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_batch_has_a_limit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "MAX_BATCH_OPERATIONS", 4)
    gate = await bench.hold_barrier()
    tasks = bench.start(*(str(number) for number in range(10)))
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(*tasks)

    assert bench.batches == 1 + 3


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
    assert bench.batches == 3
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


# Limits and ends


async def test_overload_is_refused_and_harms_nobody_else(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "MAX_PENDING_OPERATIONS", 3)
    gate = await bench.hold_barrier()
    tasks = bench.start("1", "2", "3")
    await asyncio.sleep(0)

    with pytest.raises(StoreUnavailable, match="too many requests"):
        await bench.committer.run(bench.put("4"))

    gate.open()
    assert await asyncio.gather(*tasks) == ["1", "2", "3"]
    assert bench.names() == ["1", "2", "3", "first"]


async def test_close_finishes_what_is_pending(spool: Spool, files: WatchedFiles) -> None:
    async with _bench(spool, files) as bench:
        gate = await bench.hold_barrier()
        tasks = bench.start("1", "2")
        await asyncio.sleep(0)
        gate.open()

    assert await asyncio.gather(*tasks) == ["1", "2"]


async def test_close_does_not_wait_for_a_broken_disk(spool: Spool, files: WatchedFiles) -> None:
    async with _bench(spool, files) as bench:
        files.fail(*SYNCS, times=1_000_000)
        with pytest.raises(StoreUnavailable):
            await bench.committer.run(bench.put("1"))

    assert bench.names() == []


async def test_result_that_nobody_waits_for_any_more_is_handed_over(bench: Bench) -> None:
    abandoned: list[str] = []
    gate = await bench.hold_barrier()
    task = asyncio.create_task(bench.committer.run(bench.put("1"), abandoned.append))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.open()
    await bench.committer.run(bench.put("2"))

    assert abandoned == ["1"]


async def test_result_is_handed_over_also_if_the_cancellation_comes_after_it(bench: Bench) -> None:
    abandoned: list[str] = []
    gate = await bench.hold_barrier()
    late: list[asyncio.Task[str]] = []

    async def cancel_the_next() -> None:
        await bench.committer.run(bench.put("1"))
        late[0].cancel()

    earlier = asyncio.create_task(cancel_the_next())
    await asyncio.sleep(0)
    late.append(asyncio.create_task(bench.committer.run(bench.put("2"), abandoned.append)))
    await asyncio.sleep(0)
    gate.open()
    await earlier

    with pytest.raises(asyncio.CancelledError):
        await late[0]
    assert abandoned == ["2"]


async def test_in_memory_an_operation_needs_no_barrier(spool: Spool, files: WatchedFiles) -> None:
    async with _bench(spool, files) as bench:
        committer = MemoryCommitter(lambda: None, lambda: None)

        assert await committer.run(bench.put("1")) == "1"
        with pytest.raises(StoreUnavailable, match="File exists"):
            await committer.run(bench.put("1"))

        assert (bench.names(), files.syncs()) == (["1"], 0)
