"""What an operation needs beside a barrier: a worker, a pause, other operations."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mq.commit import group
from mq.commit.barrier import Barrier, Unsynced
from mq.commit.blocking import BlockingCommitter
from mq.commit.memory import MemoryCommitter
from mq.commit.operation import Apart, InWorker, Operation, Pause, Shared, Submitted, Together
from mq.errors import QueueNotFound, StoreUnavailable
from mq.lifecycle import Folder
from tests.support.commits import Bench

Run = Callable[[Operation[Any]], Any]


@pytest.fixture(params=["group", "memory", "blocking"])
async def run(request: pytest.FixtureRequest, bench: Bench) -> AsyncIterator[Run]:
    """Each driver, as a coroutine function."""
    if request.param == "group":
        yield bench.committer.run
    elif request.param == "memory":
        memory = MemoryCommitter(lambda: None, lambda: None, bench.workers)
        yield memory.run
        await memory.close()
    else:
        blocking = BlockingCommitter(Barrier(bench.spool))
        yield lambda operation: asyncio.to_thread(blocking.run, operation)
        blocking.close()


def hold(began: threading.Event, gate: threading.Event) -> None:
    began.set()
    gate.wait(10)


def fail(error: BaseException) -> None:
    raise error


async def test_a_worker_answers_with_its_result(run: Run) -> None:
    def work() -> Operation[int]:
        first = yield InWorker(int, "40")
        yield Unsynced((), (Folder.NEW,))
        second = yield InWorker(int, "2")
        return int(first + second)

    assert await run(work()) == 42


@pytest.mark.parametrize("error", [OSError(errno.EIO, "an error"), ZeroDivisionError()])
async def test_what_a_worker_raises_is_raised_at_the_yield(run: Run, error: Exception) -> None:
    def work() -> Operation[object]:
        try:
            yield InWorker(fail, error)
        except type(error) as raised:
            return raised
        return None

    assert await run(work()) is error


async def test_an_error_of_the_disk_in_a_worker_is_unavailable(run: Run) -> None:
    def work() -> Operation[None]:
        yield InWorker(fail, OSError(errno.EIO, "an error"))

    with pytest.raises(StoreUnavailable, match="an error"):
        await run(work())


async def test_an_operation_goes_on_after_its_pause(run: Run) -> None:
    def work() -> Operation[str]:
        yield Pause(0.001)
        yield Pause(0.001)
        return "went on"

    assert await run(work()) == "went on"


async def test_each_gets_its_own_outcome(run: Run) -> None:
    def one(number: int) -> Operation[int]:
        yield Unsynced((), (Folder.NEW,))
        if number == 1:
            yield Pause(0.001)
        if number == 2:
            raise QueueNotFound("gone")
        return number

    def work() -> Operation[list[Any]]:
        none = yield Together(())
        assert none == []
        return (yield Together([one(number) for number in range(4)]))  # type: ignore[no-any-return]

    first, second, third, fourth = await run(work())

    assert (first, second, type(third), fourth) == (0, 1, QueueNotFound, 3)


async def test_what_goes_on_apart_tells_its_own_callers(run: Run) -> None:
    told: asyncio.Queue[object] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def done(result: object, error: BaseException | None) -> None:
        loop.call_soon_threadsafe(told.put_nowait, error or result)

    def one(number: int) -> Operation[int]:
        yield Pause(0.001)
        yield Unsynced((), (Folder.NEW,))
        if number == 1:
            raise QueueNotFound("gone")
        return number

    def work() -> Operation[str]:
        assert (yield Apart([Submitted(one(number), done) for number in range(3)])) is None
        yield Unsynced((), (Folder.NEW,))
        return "went on"

    assert await run(work()) == "went on"

    outcomes = [await asyncio.wait_for(told.get(), 10) for _ in range(3)]
    assert {type(each) for each in outcomes} == {int, QueueNotFound}
    assert [each for each in outcomes if isinstance(each, int)] == [0, 2]


async def test_nobody_waits_for_what_goes_on_apart(bench: Bench) -> None:
    gate, told = threading.Event(), asyncio.Event()

    def slow() -> Operation[None]:
        yield InWorker(gate.wait, 10)

    def work() -> Operation[str]:
        yield Apart([Submitted(slow(), lambda *_: told.set())])
        return (yield from bench.put("1"))

    assert await bench.committer.run(work()) == "1"
    assert not told.is_set()
    gate.set()
    await asyncio.wait_for(told.wait(), 10)


async def test_shared_answers_who_asks_alone(run: Run) -> None:
    def make() -> Operation[int]:
        return (yield InWorker(int, "7"))  # type: ignore[no-any-return]

    def work() -> Operation[int]:
        return (yield Shared("key", make))  # type: ignore[no-any-return]

    assert [await run(work()), await run(work())] == [7, 7]


@pytest.mark.parametrize("error", [None, QueueNotFound("gone")])
async def test_shared_is_run_once_for_all_who_ask(bench: Bench, error: Exception | None) -> None:
    began, gate, made = threading.Event(), threading.Event(), []

    def make() -> Operation[int]:
        made.append(1)
        yield InWorker(hold, began, gate)
        if error is not None:
            raise error
        return 7

    def work() -> Operation[int]:
        return (yield Shared("key", make))  # type: ignore[no-any-return]

    first = asyncio.create_task(bench.committer.run(work()))
    await asyncio.to_thread(began.wait, 10)
    others = [asyncio.create_task(bench.committer.run(work())) for _ in range(3)]
    await bench.committer.run(bench.put("1"))
    gate.set()

    outcomes = await asyncio.gather(first, *others, return_exceptions=True)
    assert outcomes == [error or 7] * 4
    assert made == [1]


async def test_parts_share_a_barrier(bench: Bench) -> None:
    def work() -> Operation[list[Any]]:
        return (yield Together([bench.put(str(n)) for n in range(50)]))  # type: ignore[no-any-return]

    before = bench.files.syncs()
    assert await bench.committer.run(work()) == [str(n) for n in range(50)]
    assert bench.files.syncs() == before + 1


async def test_nobody_waits_for_what_is_in_a_worker(bench: Bench) -> None:
    gate = threading.Event()

    def work() -> Operation[bool]:
        return (yield InWorker(gate.wait, 10))  # type: ignore[no-any-return]

    task = asyncio.create_task(bench.committer.run(work()))
    assert await bench.committer.run(bench.put("1")) == "1"
    assert not task.done()
    gate.set()
    assert await task


async def test_queues_are_let_go_before_a_worker_begins(bench: Bench) -> None:
    ended: list[int] = []

    def work() -> Operation[None]:
        seen = len(bench.syncs_when_calls_ended)
        yield InWorker(lambda: ended.append(len(bench.syncs_when_calls_ended) - seen))

    await bench.committer.run(work())
    assert ended == [1]


async def test_what_waits_elsewhere_counts_as_pending(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "MAX_PENDING_OPERATIONS", 2)
    gate = threading.Event()

    def work() -> Operation[None]:
        yield InWorker(gate.wait, 10)

    def paused() -> Operation[None]:
        while not gate.is_set():
            yield Pause(0.001)

    tasks = [asyncio.create_task(bench.committer.run(each)) for each in (work(), paused())]
    while bench.committer._engine.away < 2:
        await asyncio.sleep(0.001)
    with pytest.raises(StoreUnavailable, match="too many requests"):
        await bench.committer.run(bench.put("1"))
    gate.set()
    await asyncio.gather(*tasks)

    assert await bench.committer.run(bench.put("2")) == "2"


async def test_a_caller_that_leaves_a_worker_leaves_the_result_to_another(bench: Bench) -> None:
    began, gate = threading.Event(), threading.Event()
    abandoned: list[str] = []

    def work() -> Operation[str]:
        yield InWorker(hold, began, gate)
        return (yield from bench.put("1"))

    task = asyncio.create_task(bench.committer.run(work(), abandoned.append))
    await asyncio.to_thread(began.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    while not abandoned:
        await asyncio.sleep(0.001)

    assert (abandoned, bench.names()) == (["1"], ["1"])


async def test_no_thread_for_a_worker_fails_one_operation(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> Operation[None]:
        yield InWorker(int)

    monkeypatch.setattr(
        bench.workers, "submit", lambda *_: fail(RuntimeError("can't start new thread"))
    )
    with pytest.raises(RuntimeError, match="new thread"):
        await bench.committer.run(work())

    assert await bench.committer.run(bench.put("1")) == "1"


async def test_a_function_that_needs_nothing_is_called_where_operations_run(bench: Bench) -> None:
    thread = await bench.committer.call(threading.current_thread)

    assert thread.name == "committer"
    with pytest.raises(StoreUnavailable, match="an error"):
        await bench.committer.call(fail, OSError(errno.EIO, "an error"))
    with pytest.raises(ZeroDivisionError):
        await bench.committer.call(fail, ZeroDivisionError())
    assert bench.files.syncs() == 0
