"""Who makes a round: the event loop, while rounds are light, or the committer's thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from mq.commit import committer_thread, loop_rounds, pipelined_rounds
from mq.commit.barrier import Unsynced
from mq.commit.light_rounds import FAST_ROUND_SECONDS, LightRounds
from mq.commit.operation import InWorker, Operation
from mq.lifecycle import Folder
from mq.spool.spool import Spool
from tests.support.commits import (
    Bench,
    be_fast,
    gather,
    make_fast,
    make_slow,
    open_bench,
    take_off,
)
from tests.support.faults import SYNCS, WatchedFiles


@pytest.fixture
async def bench(spool: Spool, files: WatchedFiles) -> AsyncIterator[Bench]:
    async with open_bench(spool, files, light_rounds=LightRounds()) as made:
        yield made


def test_rounds_are_light_once_the_last_ones_were_fast() -> None:
    light = LightRounds()
    assert not light.are_usual()

    for _ in range(100):
        light.note(FAST_ROUND_SECONDS / 10)
    assert light.are_usual()

    light.note(10 * FAST_ROUND_SECONDS)
    assert light.are_usual()  # One slow round among fast ones.

    light.note(1.0)  # The disk did not answer for a second.
    assert not light.are_usual()


def test_rounds_are_light_unless_the_last_ones_were_of_batches() -> None:
    light = LightRounds()
    for _ in range(100):
        light.note(0.0)
        light.note_size(1000, 1000)
    assert light.are_usual()

    light.note_size(100, 1)  # A batch among single messages.
    light.note_size(0, 0)
    assert light.are_usual()

    for _ in range(100):
        light.note_size(800, 8)
    assert not light.are_usual()


class _Clock:
    """Stands for the module `time`."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    for module in (committer_thread, loop_rounds, pipelined_rounds):
        monkeypatch.setattr(module, "time", clock)
    return clock


def slow_calls(clock: _Clock, seconds: float, messages: int) -> Operation[threading.Thread]:
    """An operation whose file calls take that long. Returns who makes them."""
    clock.pass_seconds(seconds)
    yield Unsynced((), (Folder.NEW,), messages=messages)
    return threading.current_thread()


@pytest.mark.parametrize(
    ("seconds", "messages", "are_light"), [(0.1, 1, False), (0.0, 1, True), (0.1, 20, False)]
)
async def test_the_thread_makes_rounds_until_they_are_fast(
    bench: Bench, clock: _Clock, seconds: float, messages: int, are_light: bool
) -> None:
    make_slow(bench)

    for _ in range(500):
        await bench.committer.run(slow_calls(clock, seconds, messages))

    assert bench.light_rounds.are_usual() == are_light


async def test_the_thread_finds_file_calls_slow_for_their_messages(
    bench: Bench, clock: _Clock
) -> None:
    """The event loop takes as many in parts."""
    make_slow(bench)

    for _ in range(500):
        await asyncio.gather(
            *(bench.committer.run(slow_calls(clock, 0.001, 16)) for _ in range(100))
        )
        if bench.light_rounds.are_usual():
            break

    assert bench.light_rounds.are_usual()


@pytest.mark.parametrize("messages", [1, 65])
async def test_file_calls_that_hold_up_the_event_loop_are_left_to_the_thread(
    bench: Bench, clock: _Clock, messages: int
) -> None:
    """However many messages they are for, and while a barrier is in flight."""
    await be_fast(bench)
    maker = await bench.committer.run(slow_calls(clock, 10.0, messages))
    assert maker is threading.current_thread()

    maker = await bench.committer.run(slow_calls(clock, 0.0, 1))
    assert maker is not threading.current_thread()


async def test_batches_are_left_to_the_thread(bench: Bench, clock: _Clock) -> None:
    await be_fast(bench)

    for _ in range(100):
        maker = await bench.committer.run(slow_calls(clock, 0.0, 33))
    assert maker is not threading.current_thread()

    for _ in range(100):
        maker = await bench.committer.run(slow_calls(clock, 0.0, 1))
    assert maker is threading.current_thread()


async def test_the_event_loop_makes_no_round_while_the_thread_has_a_barrier_in_flight(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def who() -> Operation[str]:
        maker = threading.current_thread().name
        yield Unsynced((), (Folder.NEW,))
        return maker

    monkeypatch.setattr(pipelined_rounds, "FEW_MESSAGES", 1)
    make_slow(bench)
    gate, tasks = await take_off(bench)
    make_fast(bench)
    task = asyncio.create_task(bench.committer.run(who()))
    later = await gather(bench, "3")

    gate.open()
    assert await task == "committer"
    await asyncio.gather(*tasks, *later)


async def test_nothing_gathers_before_what_waits_for_the_thread(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_worker() -> Operation[str]:
        name: str = yield InWorker(str, 7)
        return name

    monkeypatch.setattr(pipelined_rounds, "FEW_MESSAGES", 1)
    await be_fast(bench)
    gate, tasks = await take_off(bench)
    come_back = asyncio.create_task(bench.committer.run(with_worker()))
    async with asyncio.timeout(20):
        while not bench.committer._thread._is_ready:
            await asyncio.sleep(0.001)

    later = bench.start("3")
    await asyncio.sleep(0.01)
    assert bench.names() == ["1", "2"]

    gate.open()
    assert await asyncio.gather(*tasks, come_back, *later) == ["1", "2", "7", "3"]


async def test_nothing_gathers_once_rounds_are_slow(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelined_rounds, "FEW_MESSAGES", 1)
    await be_fast(bench)
    gate, tasks = await take_off(bench)
    bench.light_rounds.note(1e9)

    later = bench.start("3")
    await asyncio.sleep(0.01)
    assert bench.names() == ["1", "2"]

    gate.open()
    assert await asyncio.gather(*tasks, *later) == ["1", "2", "3"]


async def test_no_barrier_takes_off_where_the_network_can_hold_it_up(
    spool: Spool, files: WatchedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelined_rounds, "FEW_MESSAGES", 1)
    synced_by: list[str] = []
    hook = dict.fromkeys(SYNCS, lambda *_: synced_by.append(threading.current_thread().name))

    async with open_bench(spool, files) as bench:
        bench.files.before |= hook
        await asyncio.gather(*bench.start("1", "2"))

    assert set(synced_by) == {"committer"}
