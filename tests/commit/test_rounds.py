"""What becomes of operations that wait for something other than a barrier when a barrier fails,
when the committer closes, or when it ends by a defect."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mq.commit.memory import MemoryCommitter
from mq.commit.operation import InWorker, Operation, Pause, Shared, Submitted, Together
from mq.errors import StoreUnavailable
from mq.spool.spool import Spool
from tests.support.commits import Bench, open_bench
from tests.support.faults import SYNCS, WatchedFiles

# A failed barrier


@asynccontextmanager
async def failed_barrier_meanwhile(
    bench: Bench, files: WatchedFiles, operations: list[Operation[Any]]
) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """The operations go as far as they can; then the barrier of another operation fails."""
    tasks = [asyncio.create_task(bench.committer.run(each)) for each in operations]
    while bench.committer._engine.away < len(operations):
        await asyncio.sleep(0.001)
    files.fail(*SYNCS)
    with pytest.raises(StoreUnavailable):
        await bench.committer.run(bench.put("fails"))
    while bench.committer.failure is not None:
        await asyncio.sleep(0.001)
    yield tasks


async def test_what_was_under_way_when_a_barrier_failed_is_refused(
    bench: Bench, files: WatchedFiles
) -> None:
    """It is refused even if the store is open again when it comes back."""
    gate, ended = threading.Event(), []

    def work(name: str, need: object) -> Operation[str]:
        try:
            yield need  # type: ignore[misc]
        except StoreUnavailable:
            ended.append(name)
            raise
        return (yield from bench.put(name))

    def listed() -> Operation[None]:
        yield InWorker(gate.wait, 10)

    needs = {
        "worker": InWorker(gate.wait, 10),
        "pause": Pause(0.3),
        "shared": Shared("key", listed),
        "parts": Together([listed()]),
    }
    operations: list[Operation[Any]] = [work(name, need) for name, need in needs.items()]
    async with failed_barrier_meanwhile(bench, files, operations) as tasks:
        gate.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
    assert sorted(ended) == sorted(needs)
    assert bench.names() == []
    assert await bench.committer.run(bench.put("after")) == "after"


async def test_who_cleans_up_in_a_worker_after_a_failed_barrier_may(
    bench: Bench, files: WatchedFiles
) -> None:
    cleaned: list[str] = []

    def work() -> Operation[None]:
        try:
            yield from bench.put("1")
        finally:
            yield InWorker(cleaned.append, "in a worker")

    files.fail(*SYNCS)
    with pytest.raises(StoreUnavailable):
        await bench.committer.run(work())

    assert cleaned == ["in a worker"]
    assert bench.names() == []


# The end


async def test_close_waits_for_what_is_elsewhere(spool: Spool, files: WatchedFiles) -> None:
    gate = threading.Event()

    def work(need: object) -> Operation[str]:
        yield need  # type: ignore[misc]
        return (yield from put(type(need).__name__))

    async with open_bench(spool, files) as bench:
        put = bench.put
        needs = [InWorker(gate.wait, 10), Pause(0.2)]
        tasks = [asyncio.create_task(bench.committer.run(work(need))) for need in needs]
        while bench.committer._engine.away < 2:
            await asyncio.sleep(0.001)
        asyncio.get_running_loop().call_later(0.05, gate.set)

    assert await asyncio.gather(*tasks) == ["InWorker", "Pause"]
    assert bench.names() == ["InWorker", "Pause"]


async def test_in_memory_close_waits_for_what_is_elsewhere() -> None:
    gate = threading.Event()

    def work() -> Operation[bool]:
        return (yield InWorker(gate.wait, 10))  # type: ignore[no-any-return]

    with ThreadPoolExecutor(1) as workers:
        memory = MemoryCommitter(lambda: None, lambda: None, workers)
        task = asyncio.create_task(memory.run(work()))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.05, gate.set)
        await memory.close()

    assert memory._engine.away == 0
    assert await task


def fail() -> None:
    raise AssertionError("a defect")


async def test_a_defect_leaves_nobody_waiting_wherever_they_are(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, told = threading.Event(), []

    def listed() -> Operation[None]:
        yield InWorker(gate.wait, 10)

    def work(need: object) -> Operation[None]:
        yield need  # type: ignore[misc]

    needs = [
        InWorker(gate.wait, 10),
        Pause(0.1),
        Shared("key", listed),
        Shared("key", listed),
        Together([listed(), listed()]),
    ]
    for need in needs:
        bench.committer.submit(Submitted(work(need), lambda *outcome: told.append(outcome)))
    while bench.committer._engine.away < len(needs):
        await asyncio.sleep(0.001)
    monkeypatch.setattr(bench.committer._rounds, "_end_calls", fail)
    with pytest.raises(StoreUnavailable, match="must be restarted"):
        await bench.committer.run(bench.put("1"))
    gate.set()
    while len(told) < len(needs):
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.2)

    assert [type(error) for _, error in told] == [StoreUnavailable] * len(needs)
    assert not bench.committer.is_alive()
