"""The moments at which a barrier lands beside the committer's thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from mq.commit import pipelined_rounds
from mq.commit.light_rounds import LightRounds
from mq.commit.operation import Submitted
from mq.spool.spool import Spool
from tests.support.commits import Bench, make_slow, open_bench, take_off
from tests.support.faults import WatchedFiles


@pytest.fixture
async def bench(
    spool: Spool, files: WatchedFiles, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Bench]:
    monkeypatch.setattr(pipelined_rounds, "FEW_MESSAGES", 1)
    async with open_bench(spool, files, light_rounds=LightRounds()) as made:
        make_slow(made)
        yield made


async def test_a_barrier_may_land_before_the_thread_looks_for_more_to_do(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What wakes the thread is then among what it finds."""
    arrivals, rounds = bench.committer._arrivals, bench.committer._thread._pipelined
    take = arrivals.take

    def let_land_and_take(most: int) -> list[Submitted]:
        while rounds.is_flying and not (rounds.has_landed() and arrivals.has_turn()):
            time.sleep(0.001)
        return take(most)

    monkeypatch.setattr(arrivals, "take", let_land_and_take)

    async with asyncio.timeout(20):
        assert await asyncio.gather(*bench.start("1", "2")) == ["1", "2"]


async def test_a_barrier_may_land_when_the_thread_has_found_more_to_do(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrivals, rounds = bench.committer._arrivals, bench.committer._thread._pipelined
    take = arrivals.take
    gate, tasks = await take_off(bench)

    def take_and_let_land(most: int) -> list[Submitted]:
        taken = take(most)
        gate.open()
        while taken and rounds.is_flying and not rounds.has_landed():
            time.sleep(0.001)
        return taken

    monkeypatch.setattr(arrivals, "take", take_and_let_land)
    tasks += bench.start("3")

    async with asyncio.timeout(20):
        assert await asyncio.gather(*tasks) == ["1", "2", "3"]
