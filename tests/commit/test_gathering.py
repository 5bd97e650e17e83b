"""A round beside other servers waits for its clients, and no longer than they keep coming."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from itertools import chain, repeat

import pytest

from mq.commit.gathering import GATHERING_PAUSE_SECONDS, MAX_GATHERING_PAUSES, Gathering
from mq.commit.light_rounds import LightRounds
from mq.commit.operation import Submitted
from mq.spool.spool import Spool
from tests.support.commits import be_fast, open_bench
from tests.support.faults import WatchedFiles


def _counting(counts: Iterator[int]) -> Callable[[], int]:
    return lambda: next(counts)


@pytest.mark.parametrize(
    ("expected", "counts", "pauses"),
    [
        pytest.param(0, [1], 0, id="nothing is known yet"),
        pytest.param(1, [1], 0, id="a lone client"),
        pytest.param(9, [9], 0, id="all are here"),
        pytest.param(9, [12], 0, id="more than expected"),
        pytest.param(9, [4, 9], 1, id="the rest comes"),
        pytest.param(9, [4, 6, 8, 9], 3, id="the rest comes bit by bit"),
        pytest.param(9, [4, 4], 1, id="nobody comes"),
        pytest.param(9, [4, 7, 7], 2, id="nobody comes any more"),
        pytest.param(99, [*range(1, 20)], MAX_GATHERING_PAUSES, id="they come too slowly"),
    ],
)
def test_round_waits_while_operations_come(expected: int, counts: list[int], pauses: int) -> None:
    paused: list[float] = []
    gathering = Gathering(paused.append)
    gathering.expect(expected)

    gathering.wait(_counting(chain(counts, repeat(counts[-1]))))

    assert paused == [GATHERING_PAUSE_SECONDS] * pauses


def test_round_that_some_clients_missed_makes_no_small_ones() -> None:
    paused: list[float] = []
    gathering = Gathering(paused.append)
    for operations in (9, 1):
        gathering.expect(operations)

    gathering.wait(_counting(iter([1, 9])))
    assert len(paused) == 1

    gathering.expect(1)  # The second small one: the others have left.
    gathering.wait(_counting(iter([1])))
    assert len(paused) == 1


async def test_operations_that_come_during_the_pause_share_the_sync(
    spool: Spool, files: WatchedFiles
) -> None:
    """The second is sent once the round pauses, and the pause lasts until then."""
    loop, paused, sent = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def pause(_: float) -> None:
        loop.call_soon_threadsafe(paused.set)
        assert sent.wait(30)

    gathering = Gathering(pause)
    gathering.expect(2)
    async with open_bench(spool, files, gathering) as bench:
        tasks = bench.start("first")
        await paused.wait()
        tasks += bench.start("second")
        await asyncio.sleep(0)
        loop.call_soon(sent.set)
        await asyncio.gather(*tasks)

        assert bench.rounds == 1


async def test_the_event_loop_pauses_before_a_round_of_its_own_and_looks_at_its_sockets_again(
    spool: Spool, files: WatchedFiles
) -> None:
    """One request comes during the first pause, one during the second, and none in the third."""
    loop = asyncio.get_running_loop()
    pauses: list[threading.Thread] = []
    is_over = asyncio.Event()

    def done(result: object, error: object) -> None:
        is_over.set()

    def pause(_: float) -> None:
        pauses.append(threading.current_thread())
        if len(pauses) < 3:
            operation = bench.put(str(len(pauses)))
            loop.call_soon(bench.committer.submit, Submitted(operation, done))

    gathering = Gathering(pause)
    async with open_bench(spool, files, gathering, LightRounds()) as bench:
        await be_fast(bench)
        gathering.expect(9)
        [first] = bench.start("first")
        assert await first == "first"
        await is_over.wait()

        assert (bench.rounds, sorted(bench.names())) == (1, ["1", "2", "first"])
    assert pauses == [threading.current_thread()] * 3


async def test_requests_that_will_share_an_operation_are_counted_and_share_it(
    spool: Spool, files: WatchedFiles
) -> None:
    """Two come in one turn of the event loop and the third during the pause. All have come then, so
    there is no second pause."""
    loop = asyncio.get_running_loop()
    is_over = asyncio.Event()
    asked: list[str] = []
    pauses: list[float] = []
    operations: list[Submitted] = []

    def submit() -> None:
        together = bench.put("-".join(asked))
        operations.append(Submitted(together, lambda result, error: is_over.set(), len(asked)))
        bench.committer.submit(operations[-1])

    def ask(name: str) -> None:
        asked.append(name)
        bench.committer.submit_later(submit)

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        loop.call_soon(ask, "third")

    gathering = Gathering(pause)
    async with open_bench(spool, files, gathering, LightRounds()) as bench:
        await be_fast(bench)
        gathering.expect(3)
        ask("first")
        ask("second")
        await is_over.wait()

        assert bench.names() == ["first-second-third"]
        assert (len(operations), len(pauses), bench.rounds) == (1, 1, 1)


async def test_closing_while_the_event_loop_gathers_leaves_nobody_waiting(
    spool: Spool, files: WatchedFiles
) -> None:
    gathering = Gathering(lambda _: None)
    async with open_bench(spool, files, gathering, LightRounds()) as bench:
        await be_fast(bench)
        gathering.expect(9)
        [first] = bench.start("first")
        await asyncio.sleep(0)
        assert not first.done()

    assert await first == "first"


async def test_round_tells_how_many_clients_are_at_work(
    spool: Spool, files: WatchedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    gathering = Gathering()
    monkeypatch.setattr(gathering, "expect", told.append)
    async with open_bench(spool, files, gathering) as bench:
        gate = await bench.hold_barrier()
        tasks = bench.start("second", "third")
        await asyncio.sleep(0)
        gate.open()
        await asyncio.gather(*tasks)

    assert told == [3, 2]
