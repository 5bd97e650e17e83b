"""While rounds are light, the event loop makes them; whatever goes wrong in one is the thread's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from mq.commit import loop_rounds
from mq.commit.barrier import Unsynced
from mq.commit.light_rounds import LightRounds
from mq.commit.operation import InWorker, Operation
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder
from mq.spool.spool import Spool
from tests.support.commits import (
    Bench,
    be_fast,
    is_back,
    make_fast,
    make_slow,
    note_syncs_before_reopening,
    open_bench,
)
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.stores import eventually


@pytest.fixture
async def bench(spool: Spool, files: WatchedFiles) -> AsyncIterator[Bench]:
    async with open_bench(spool, files, light_rounds=LightRounds()) as made:
        yield made


def where(bench: Bench) -> Operation[tuple[threading.Thread, int]]:
    """Who makes the round, and how many syncs there were before this is answered."""
    yield Unsynced((), (Folder.NEW,))
    return threading.current_thread(), bench.files.syncs()


async def test_the_event_loop_makes_light_rounds_and_answers_after_the_sync(bench: Bench) -> None:
    slow, syncs = await bench.committer.run(where(bench))
    assert (slow is threading.current_thread(), syncs) == (False, 1)

    await be_fast(bench)
    fast, syncs = await bench.committer.run(where(bench))
    assert (fast is threading.current_thread(), syncs) == (True, 2)

    make_slow(bench)
    assert (await bench.committer.run(where(bench)))[0] is slow


async def test_what_one_turn_of_the_loop_asks_for_is_one_round_of_the_loop(bench: Bench) -> None:
    await be_fast(bench)

    await asyncio.gather(*bench.start(*"123456"))

    assert (bench.rounds, bench.files.syncs()) == (1, 1)


async def test_more_than_a_round_holds_is_for_the_thread(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_rounds, "MAX_ROUND_OPERATIONS", 2)
    await be_fast(bench)

    makers = await asyncio.gather(*(bench.committer.run(where(bench)) for _ in range(3)))

    assert threading.current_thread() not in {maker for maker, _ in makers}


async def test_the_loop_does_not_wait_for_a_round_of_the_thread(bench: Bench) -> None:
    gate = await bench.hold_barrier()
    make_fast(bench)

    second = asyncio.create_task(bench.committer.run(where(bench)))
    await asyncio.sleep(0.01)
    assert not second.done()

    gate.open()
    maker, _ = await second
    assert maker is not threading.current_thread()


async def test_an_operation_that_needs_a_worker_is_durable_all_the_same(bench: Bench) -> None:
    def with_worker() -> Operation[str]:
        name = yield InWorker(str, 7)
        return (yield from bench.put(name))

    await be_fast(bench)

    assert await bench.committer.run(with_worker()) == "7"
    assert bench.names() == ["7"]
    assert bench.files.syncs() > 0


async def test_an_operation_that_yields_twice_is_synced_twice(bench: Bench) -> None:
    def twice() -> Operation[list[int]]:
        yield Unsynced((), (Folder.NEW,))
        first = bench.files.syncs()
        yield Unsynced((), (Folder.NEW,))
        return [first, bench.files.syncs()]

    await be_fast(bench)

    assert await bench.committer.run(twice()) == [1, 2]


async def test_a_failed_sync_of_the_loop_is_seen_to_by_the_thread(
    bench: Bench, files: WatchedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    reopened_by: list[threading.Thread] = []
    note(bench, monkeypatch, reopened_by)
    files.fail(*SYNCS)
    await be_fast(bench)

    outcomes = await asyncio.gather(*bench.start("1", "2"), return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 2
    assert bench.names() == []
    await eventually(lambda: is_back(bench))
    assert threading.current_thread() not in reopened_by
    assert len(reopened_by) == 1
    assert bench.names() == ["again"]


async def test_nothing_is_synced_between_a_failed_sync_and_the_reopening(
    bench: Bench, files: WatchedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operation of the failed round asks for another barrier, and others come meanwhile."""

    def stubborn() -> Operation[str]:
        for _ in range(3):
            try:
                yield Unsynced((), (Folder.NEW,))
            except StoreUnavailable:
                continue
        return "done"

    syncs = note_syncs_before_reopening(bench, monkeypatch)
    files.fail(*SYNCS)
    await be_fast(bench)

    first = asyncio.create_task(bench.committer.run(stubborn()))
    others = [asyncio.create_task(bench.committer.run(where(bench))) for _ in range(3)]
    outcomes = await asyncio.gather(first, *others, return_exceptions=True)

    assert outcomes[0] == "done"
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes[1:])
    assert syncs == [1]


async def test_no_round_is_made_before_the_thread_has_seen_to_a_failure(bench: Bench) -> None:
    await be_fast(bench)
    bench.committer._engine.note_failed_barrier("a test")

    with pytest.raises(StoreUnavailable):
        await bench.committer.run(where(bench))


async def test_a_defect_in_a_round_of_the_loop_leaves_nobody_waiting(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise AssertionError("a defect")

    await be_fast(bench)
    monkeypatch.setattr(bench.committer._rounds, "_end_calls", fail)

    outcomes = await asyncio.gather(*bench.start("1", "2"), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 2
    with pytest.raises(StoreUnavailable, match="must be restarted"):
        await bench.committer.run(bench.put("3"))
    assert not bench.committer.is_alive()


async def test_all_is_answered_while_rounds_are_made_by_turns(bench: Bench) -> None:
    """Many operations, each with a worker between two barriers, while the speed changes."""

    def work(number: int) -> Operation[int]:
        yield Unsynced((), (Folder.NEW,))
        answer: int = yield InWorker(abs, -number)
        yield Unsynced((), (Folder.NEW,))
        return answer

    async def client(first: int) -> list[int]:
        answers = []
        for number in range(first, first + 40):
            (make_fast if number % 3 else make_slow)(bench)
            answers.append(await bench.committer.run(work(number)))
        return answers

    answers = await asyncio.gather(*(client(1000 * each) for each in range(8)))

    assert answers == [list(range(1000 * each, 1000 * each + 40)) for each in range(8)]
    assert bench.committer._arrivals.waiting() == bench.committer._engine.away == 0


def note(bench: Bench, monkeypatch: pytest.MonkeyPatch, threads: list[threading.Thread]) -> None:
    """Let `threads` be those that reopen the store."""
    recover: Callable[[], None] = bench.committer._thread._reopening._recover

    def noted() -> None:
        threads.append(threading.current_thread())
        recover()

    monkeypatch.setattr(bench.committer._thread._reopening, "_recover", noted)
