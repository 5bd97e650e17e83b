"""How operations end: refused, handed over to nobody, cut off by a defect, or without a barrier."""

from __future__ import annotations

import asyncio
import errno
import os

import pytest

from mq.commit import group
from mq.commit.memory import MemoryCommitter
from mq.commit.operation import Submitted, unavailable
from mq.errors import StoreUnavailable
from mq.spool.spool import Spool
from tests.support.commits import Bench, open_bench
from tests.support.faults import SYNCS, WatchedFiles


async def test_overload_is_refused_and_harms_nobody_else(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "MAX_PENDING_OPERATIONS", 3)
    gate = await bench.hold_barrier()
    tasks = bench.start("1", "2", "3")
    await asyncio.sleep(0)

    with pytest.raises(StoreUnavailable, match="too many requests"):
        await bench.committer.run(bench.put("4"))

    gate.open()
    assert await asyncio.gather(*tasks) == ["1", "2", "3"]
    assert bench.names() == ["1", "2", "3", "first"]


async def test_close_finishes_what_is_pending(spool: Spool, files: WatchedFiles) -> None:
    async with open_bench(spool, files) as bench:
        gate = await bench.hold_barrier()
        tasks = bench.start("1", "2")
        await asyncio.sleep(0)
        gate.open()

    assert await asyncio.gather(*tasks) == ["1", "2"]


async def test_what_comes_after_close_is_refused(spool: Spool, files: WatchedFiles) -> None:
    async with open_bench(spool, files) as bench:
        pass

    with pytest.raises(StoreUnavailable, match="the server stops"):
        async with asyncio.timeout(20):
            await bench.committer.run(bench.put("1"))


async def test_close_does_not_wait_for_a_broken_disk(spool: Spool, files: WatchedFiles) -> None:
    async with open_bench(spool, files) as bench:
        files.fail(*SYNCS, times=1_000_000)
        with pytest.raises(StoreUnavailable):
            await bench.committer.run(bench.put("1"))

    assert bench.names() == []


async def test_a_defect_of_the_committer_leaves_nobody_waiting(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise AssertionError("a defect")

    monkeypatch.setattr(bench.committer._rounds, "_end_calls", fail)

    for name in ("1", "2"):
        with pytest.raises(StoreUnavailable, match="must be restarted"):
            await bench.committer.run(bench.put(name))
    assert not bench.committer.is_alive()


async def test_what_one_turn_of_the_loop_asks_for_is_one_round(bench: Bench) -> None:
    ended: list[str] = []
    for name in ("1", "2", "3"):
        bench.committer.submit(Submitted(bench.put(name), lambda result, _: ended.append(result)))
    assert ended == []

    await bench.committer.run(bench.put("4"))

    assert (bench.rounds, sorted(ended)) == (1, ["1", "2", "3"])


async def test_who_cannot_be_told_leaves_nobody_else_waiting(bench: Bench) -> None:
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def fail(*_: object) -> None:
        raise AssertionError("a defect")

    bench.committer.submit(Submitted(bench.put("1"), fail))
    bench.committer.submit(Submitted(bench.put("2"), lambda result, _: told.set_result(result)))

    assert await asyncio.wait_for(told, 10) == "2"


async def test_who_submits_is_told_of_an_error(bench: Bench, files: WatchedFiles) -> None:
    told: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    files.fail(*SYNCS)

    bench.committer.submit(Submitted(bench.put("1"), lambda _, error: told.set_result(error)))

    assert isinstance(await told, StoreUnavailable)
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


async def test_in_memory_close_finishes_what_is_to_be_submitted_later(
    spool: Spool, files: WatchedFiles
) -> None:
    told: list[object] = []
    async with open_bench(spool, files) as bench:
        committer = MemoryCommitter(lambda: None, lambda: None, bench.workers)

        def submit() -> None:
            committer.submit(Submitted(bench.put("1"), lambda result, _: told.append(result)))

        committer.submit_later(submit)
        await committer.close()
        assert told == ["1"]


async def test_in_memory_an_operation_needs_no_barrier(spool: Spool, files: WatchedFiles) -> None:
    async with open_bench(spool, files) as bench:
        committer = MemoryCommitter(lambda: None, lambda: None, bench.workers)

        assert await committer.run(bench.put("1")) == "1"
        with pytest.raises(StoreUnavailable, match="File exists"):
            await committer.run(bench.put("1"))

        assert (bench.names(), files.syncs()) == (["1"], 0)


@pytest.mark.parametrize(
    ("code", "way_out"),
    [
        (errno.ENOSPC, "No space left on device; make room, then try again"),
        (errno.EDQUOT, "Disk quota exceeded; make room, then try again"),
        (errno.EACCES, "Permission denied; mqctl fsck names what is another user's"),
        (errno.EPERM, "Operation not permitted; look for what chattr made immutable"),
        (errno.EROFS, "Read-only file system; the file system is mounted read-only"),
        (errno.EMFILE, "Too many open files; raise the limit of this process"),
        (errno.EIO, "Input/output error; try again"),
    ],
)
def test_an_error_that_trying_again_does_not_mend_names_what_does(code: int, way_out: str) -> None:
    error = unavailable(OSError(code, os.strerror(code)))

    assert f"the store cannot do this now: {way_out}" in str(error)
