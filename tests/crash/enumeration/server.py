"""A store as a server runs it, on recorded files, whose batches are the same in every run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, TypeVar

from mq.barrier import SyncBarrier
from mq.commit import GroupCommitter
from mq.config import ServerConfig
from mq.operation import Operation
from mq.spool.files import Files
from mq.spool.root import open_root
from mq.spool.sweep import Sweeper
from mq.store.store import Store
from mq.store.upkeep import catch_up
from mq.store.workspace import Workspace
from tests.crash.enumeration.clock import Clock

T = TypeVar("T")

_HOPS = 8
"""Turns of the event loop in which others may join a batch, and hear of the one before."""


class SteppedCommitter(GroupCommitter):
    """The committer without its thread: a batch runs on the event loop when all who were woken by
    the one before have had their turn."""

    def _start(self) -> None:
        self._again: list[Any] = []
        self._is_scheduled = False
        self.wrap: Callable[[Operation[Any]], Operation[Any]] = lambda operation: operation

    async def run(self, operation: Operation[T], abandoned: Callable[[T], None] | None = None) -> T:
        self._schedule()
        return await super().run(self.wrap(operation), abandoned)

    async def close(self) -> None:
        self._stopping.set()
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
        if self._again or not self._pending.empty():
            batch = self._take(self._again)
            assert batch is not None
            self._again = self._run_batch(batch)
        if self._again:
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


class Opened:
    """A root opened and swept by a server, ready for its first request. Raises what that raises."""

    def __init__(self, root: Path, files: Files, clock: Clock, **settings: Any) -> None:
        spool, file_system = open_root(root, 0o700, files)
        config = ServerConfig(root=root, min_free_bytes=0, **settings)
        granularity_ns = file_system.stamp_granularity_ns
        self.work = Workspace(spool, config, lambda: None, granularity_ns, clock)
        self.sweeper = Sweeper(spool, lambda *_: None)
        catch_up(self.work, self.sweeper)

    def close(self) -> None:
        self.work.ready.close()
        self.work.spool.close()


class Server(Opened):
    """Takes requests."""

    def __init__(self, root: Path, files: Files, clock: Clock, **settings: Any) -> None:
        super().__init__(root, files, clock, **settings)
        self._runner = asyncio.Runner()
        self.store, self.committer = self._runner.run(self._open())

    async def _open(self) -> tuple[Store, SteppedCommitter]:
        work = self.work
        committer = SteppedCommitter(
            SyncBarrier(work.spool), work.begin_batch, work.end_calls, self._recover
        )
        return Store(work, committer, InlineExecutor()), committer

    def _recover(self) -> None:
        self.work.spool.reopen()
        self.sweeper.sweep()

    def run(self, *work: Coroutine[Any, Any, Any]) -> list[Any]:
        """Everything at once, as requests come; returns what each returned or raised."""

        async def gather() -> list[Any]:
            return await asyncio.gather(*work, return_exceptions=True)

        return self._runner.run(gather())

    def sweep(self) -> None:
        self.sweeper.sweep()

    def close(self) -> None:
        self._runner.run(self._close())
        self._runner.close()
        super().close()

    async def _close(self) -> None:
        await self.store.close()
        await self.committer.close()
