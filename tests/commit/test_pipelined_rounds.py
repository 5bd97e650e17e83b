"""A round with many operations: its barrier is passed beside it, while the next round gathers, on
the event loop and on the committer's thread. Whatever goes wrong is told to both."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from mq.commit import pipelined_rounds
from mq.commit.barrier import Unsynced
from mq.commit.barrier_thread import Landed
from mq.commit.light_rounds import LightRounds
from mq.commit.operation import InWorker, Operation
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder
from mq.spool.spool import Spool
from tests.support.commits import (
    Bench,
    be_fast,
    gather,
    is_back,
    make_fast,
    make_slow,
    note_syncs_before_reopening,
    open_bench,
    take_off,
)
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.stores import eventually


@pytest.fixture(autouse=True)
def two_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelined_rounds, "FEW_MESSAGES", 1)


@pytest.fixture(params=["MainThread", "committer"])
def maker(request: pytest.FixtureRequest) -> str:
    """The thread that makes the rounds: that of the event loop, or the committer's."""
    name: str = request.param
    return name


@pytest.fixture
async def bench(spool: Spool, files: WatchedFiles, maker: str) -> AsyncIterator[Bench]:
    async with open_bench(spool, files, light_rounds=LightRounds()) as made:
        await choose(made, maker)
        yield made


async def choose(bench: Bench, maker: str) -> None:
    if maker == "committer":
        make_slow(bench)
    else:
        await be_fast(bench)


async def test_the_next_round_gathers_while_a_barrier_is_in_flight(bench: Bench) -> None:
    gate, tasks = await take_off(bench)

    later = await gather(bench, "3")
    assert not any(task.done() for task in tasks + later)

    gate.open()
    assert await asyncio.gather(*tasks, *later) == ["1", "2", "3"]


async def test_a_few_operations_are_synced_by_who_made_their_round(
    bench: Bench, maker: str
) -> None:
    def who() -> Operation[str]:
        yield Unsynced((), (Folder.NEW,))
        return synced_by[-1]

    synced_by: list[str] = []
    hook = dict.fromkeys(SYNCS, lambda *_: synced_by.append(threading.current_thread().name))
    bench.files.before |= hook

    alone = await bench.committer.run(who())
    beside, _ = await asyncio.gather(*(bench.committer.run(who()) for _ in range(2)))

    assert (alone, beside) == (maker, "barrier")


async def test_one_operation_with_many_messages_is_synced_beside_the_next_round(
    bench: Bench, maker: str
) -> None:
    """It may be a batch."""

    def who(messages: int) -> Operation[str]:
        yield Unsynced((), (Folder.NEW,), messages=messages)
        return synced_by[-1]

    synced_by: list[str] = []
    hook = dict.fromkeys(SYNCS, lambda *_: synced_by.append(threading.current_thread().name))
    bench.files.before |= hook

    assert await bench.committer.run(who(2)) == "barrier"
    assert await bench.committer.run(who(1)) == maker


async def test_a_barrier_may_land_before_the_step_that_sent_it_off_is_over(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    barriers = bench.committer._thread._barriers
    assert barriers is not None
    begin = barriers.begin

    def begin_and_wait(unsynced: Sequence[Unsynced], landed: Landed) -> None:
        is_over = threading.Event()

        def note(failure: BaseException | None) -> None:
            landed(failure)
            is_over.set()

        begin(unsynced, note)
        is_over.wait(10)

    monkeypatch.setattr(barriers, "begin", begin_and_wait)

    assert await asyncio.gather(*bench.start("1", "2")) == ["1", "2"]


async def test_what_has_gathered_is_answered_after_a_sync_of_its_own(bench: Bench) -> None:
    def syncs() -> Operation[int]:
        yield Unsynced((), (Folder.NEW,))
        return bench.files.syncs()

    gate, tasks = await take_off(bench)
    before = bench.files.syncs()
    gathered = [asyncio.create_task(bench.committer.run(syncs())) for _ in range(3)]
    await gather(bench, "3")

    gate.open()
    await asyncio.gather(*tasks)
    assert min(await asyncio.gather(*gathered)) > before


async def test_one_barrier_at_a_time_is_in_flight(bench: Bench) -> None:
    gate, tasks = await take_off(bench)
    later = await gather(bench, *"3456")
    held = bench.files.syncs()

    await asyncio.sleep(0.01)
    assert bench.files.syncs() == held

    gate.open()
    await asyncio.gather(*tasks, *later)
    assert bench.files.syncs() == held + 1


async def test_each_operation_is_counted_in_one_round(bench: Bench) -> None:
    stats = bench.committer.stats
    before = stats.requests.total

    gate, tasks = await take_off(bench)
    later = await gather(bench, *"345")
    gate.open()
    await asyncio.gather(*tasks, *later)
    await asyncio.gather(*bench.start("6"))

    assert stats.requests.total - before == 6


async def test_an_operation_that_asks_for_two_barriers_has_both(bench: Bench) -> None:
    def twice() -> Operation[list[int]]:
        yield Unsynced((), (Folder.NEW,))
        first = bench.files.syncs()
        yield Unsynced((), (Folder.NEW,))
        return [first, bench.files.syncs()]

    assert await asyncio.gather(*(bench.committer.run(twice()) for _ in range(3))) == [[1, 2]] * 3


async def test_a_failed_barrier_fails_what_has_gathered_as_well(bench: Bench) -> None:
    gate, tasks = await take_off(bench, OSError(errno.EIO, "the disk is broken"))
    later = await gather(bench, "3", "4")

    gate.open()
    outcomes = await asyncio.gather(*tasks, *later, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 4
    await eventually(lambda: is_back(bench))
    assert bench.names() == ["again"]


async def test_nothing_is_synced_between_a_failed_barrier_and_the_reopening(
    bench: Bench, files: WatchedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = note_syncs_before_reopening(bench, monkeypatch)
    gate, tasks = await take_off(bench, OSError(errno.EIO, "the disk is broken"))
    later = await gather(bench, "3", "4")
    gate.open()
    await asyncio.gather(*tasks, *later, *bench.start("5"), return_exceptions=True)

    await eventually(lambda: is_back(bench))
    assert syncs == [1]


async def test_a_worker_comes_back_while_barriers_fly_one_after_the_other(bench: Bench) -> None:
    def with_worker() -> Operation[str]:
        name: str = yield InWorker(str, 7)
        return name

    is_over = False

    async def keep_busy(number: int) -> None:
        turn = 0
        while not is_over:
            turn += 1
            (make_fast if turn % 2 else make_slow)(bench)
            await bench.committer.run(bench.put(f"{number}-{turn}"))

    busy = [asyncio.create_task(keep_busy(number)) for number in range(6)]
    async with asyncio.timeout(30):
        assert await bench.committer.run(with_worker()) == "7"
    is_over = True
    await asyncio.gather(*busy)


async def test_close_waits_for_what_is_in_flight_and_what_has_gathered(
    spool: Spool, files: WatchedFiles, maker: str
) -> None:
    async with open_bench(spool, files, light_rounds=LightRounds()) as bench:
        await choose(bench, maker)
        gate, tasks = await take_off(bench)
        later = await gather(bench, "3")
        asyncio.get_running_loop().call_later(0.01, gate.open)

    assert await asyncio.gather(*tasks, *later) == ["1", "2", "3"]


@pytest.mark.parametrize("names", ["1", "12"])
async def test_a_round_that_is_over_keeps_nothing_of_its_operations(
    bench: Bench, names: str
) -> None:
    """Their results are bodies of messages."""
    await asyncio.gather(*bench.start(*names))
    await be_fast(bench)

    committer, here = bench.committer, bench.committer._loop_rounds
    assert here is not None
    assert committer._rounds.taken == committer._thread.in_flight == here.in_flight == []


@pytest.mark.parametrize("moment", ["gathering", "landing", "barrier"])
async def test_a_defect_ends_the_committer_and_everybody_is_told(
    bench: Bench, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise defect

    defect = AssertionError("a defect")
    gate, tasks = await take_off(bench, defect if moment == "barrier" else None)
    tasks += await gather(bench, "3")
    if moment != "barrier":
        monkeypatch.setattr(bench.committer._rounds, "_end_calls", fail)
    if moment == "gathering":
        tasks += await gather(bench, "4")
        # The barrier in flight may need what these operations have open.
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in tasks)

    gate.open()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    # What is behind its barrier is durable, and told so.
    passed = ["1", "2"] if moment == "landing" else []
    assert [outcome for outcome in outcomes if isinstance(outcome, str)] == passed
    assert all(isinstance(each, StoreUnavailable) for each in outcomes[len(passed) :])
    with pytest.raises(StoreUnavailable, match="must be restarted"):
        await bench.committer.run(bench.put("5"))
    assert not bench.committer.is_alive()
