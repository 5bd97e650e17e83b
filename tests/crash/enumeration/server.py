"""A store as a server runs it, on recorded files, whose rounds are the same in every run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, TypeVar

from mq.commit.barrier import Barrier
from mq.commit.group import GroupCommitter
from mq.commit.operation import Called, Operation, Submitted
from mq.config import ServerConfig
from mq.disk.files import Files
from mq.spool.root import open_root
from mq.spool.sweep import Sweeper
from mq.store.opening import catch_up
from mq.store.shared_state import Workspace
from mq.store.store import Store
from tests.crash.enumeration.clock import StoppedClock
from tests.crash.enumeration.recorder import RecordedFiles

T = TypeVar("T")

_HOPS = 8
"""Turns of the event loop in which others may join a round, and hear of the one before."""


class SteppedCommitter(GroupCommitter):
    """The committer, whose thread is not started: a round runs on the event loop when all who were
    woken by the one before have had their turn. The event loop makes none by itself: that goes by
    the time they take."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._is_scheduled = False
        self.wrap: Callable[[Operation[Any]], Operation[Any]] = lambda operation: operation

    def submit(self, submitted: Submitted) -> None:
        if not isinstance(submitted, Called):
            submitted.operation = self.wrap(submitted.operation)
        super().submit(submitted)

    def _hand_over(self, turn: list[Submitted]) -> None:
        super()._hand_over(turn)
        self._schedule()

    def _come_back(self, submitted: Submitted) -> None:
        super()._come_back(submitted)
        self._schedule()

    async def close(self) -> None:
        self._thread.stop_reopening()
        self._barrier.close()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._hop(_HOPS)

    def _hop(self, left: int) -> None:
        if left:
            self._loop.call_soon(self._hop, left - 1)
            return
        self._is_scheduled = False
        if self._rounds.unsynced or self._arrivals.has_turn():
            taken = self._thread.take()
            assert taken is not None
            self._thread.go_on_with(taken)
        if self._rounds.unsynced or self._arrivals.has_turn():
            self._schedule()


class InlineExecutor(Executor):
    """Workers that do everything at once."""

    def submit(self, call: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(call(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future


def run_on(runner: asyncio.Runner, work: Coroutine[Any, Any, T]) -> T:
    """Do what its `run` does, but for an interrupt: to prepare for one takes longer than most
    work here takes."""
    return runner.get_loop().run_until_complete(work)


class OpenedServer:
    """A root opened and swept by a server, ready for its first request. Raises what that raises."""

    def __init__(self, root: Path, files: Files, clock: StoppedClock, **settings: Any) -> None:
        spool, file_system = open_root(root, 0o700, files)
        spool.has_one_log = True  # as the recorded disk does, on whatever the folder is
        spool.has_data_log = isinstance(files, RecordedFiles) and files.abilities.data_log
        config = ServerConfig(root=root, min_free_bytes=0, **settings)
        granularity_ns = file_system.stamp_granularity_ns
        self.work = Workspace(spool, config, lambda: None, granularity_ns, clock)
        self.sweeper = Sweeper(spool, lambda *_: None)
        catch_up(self.work, self.sweeper)

    def close(self) -> None:
        self.work.ready.close()
        self.work.spool.close()


class PlayedServer(OpenedServer):
    """Takes requests."""

    def __init__(self, root: Path, files: Files, clock: StoppedClock, **settings: Any) -> None:
        super().__init__(root, files, clock, **settings)
        self._runner = asyncio.Runner()
        self.store, self.committer = run_on(self._runner, self._open())

    async def _open(self) -> tuple[Store, SteppedCommitter]:
        work = self.work
        workers = InlineExecutor()
        committer = SteppedCommitter(
            Barrier(work.spool), work.begin_round, work.end_calls, self._recover, workers
        )
        return Store(work, committer, workers), committer

    def _recover(self) -> None:
        self.work.spool.reopen()
        self.sweeper.sweep()

    def run(self, *work: Coroutine[Any, Any, Any]) -> list[Any]:
        """Everything at once, as requests come; returns what each returned or raised."""

        async def gather() -> list[Any]:
            return await asyncio.gather(*work, return_exceptions=True)

        return run_on(self._runner, gather())

    def run_well(self, *work: Coroutine[Any, Any, Any]) -> list[Any]:
        """Do the same, and raise what the first that failed raised."""
        answers = self.run(*work)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers

    def sweep(self) -> None:
        self.sweeper.sweep()

    def close(self) -> None:
        run_on(self._runner, self._close())
        self._runner.close()
        super().close()

    async def _close(self) -> None:
        await self.store.close()
        await self.committer.close()
