"""The committer for roots without stable media: there is no barrier, and operations run as they
come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

from mq.commit import awaited
from mq.commit.barrier import Unsynced
from mq.commit.engine import Engine
from mq.commit.gathering import is_growing
from mq.commit.operation import Operation, Submitted, tell_each
from mq.metrics.histogram import CommitStats

T = TypeVar("T")


class MemoryCommitter:
    """The committer of a root on tmpfs or ramfs, which have no stable medium. There is no barrier
    and no thread: each operation runs on the event loop at once. The operations of one turn of the
    loop are a round, and requests that come one after the other share one."""

    failure = None

    def __init__(
        self, begin_round: Callable[[], None], end_calls: Callable[[], None], workers: Executor
    ) -> None:
        self._begin_round = begin_round
        self._end_calls = end_calls
        self._loop = asyncio.get_running_loop()
        self._engine = Engine(workers, self._come_back)
        self._ended: list[Submitted] = []
        self._later: list[Callable[[], None]] = []
        self._has_begun = False
        self._last_is_back: asyncio.Future[None] | None = None
        self.stats = CommitStats()

    def is_alive(self) -> bool:
        return True

    async def run(self, operation: Operation[T], abandoned: Callable[[T], None] | None = None) -> T:
        submitted = Submitted(operation)
        if not self._has_begun:
            self._begin()
        submitted.advance_alone(met=Unsynced)
        if submitted.need is None:
            if submitted.error is not None:
                raise submitted.error
            result: T = submitted.result
            return result
        future: asyncio.Future[T] = self._loop.create_future()
        submitted.done = partial(awaited.settle, future, abandoned)
        self._drive(self._engine.let_wait(submitted))
        return await awaited.outcome(future, abandoned)

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        return await awaited.call(self, function, *arguments)

    def submit(self, submitted: Submitted) -> None:
        if not self._has_begun:
            self._begin()
        submitted.advance_alone(met=Unsynced)
        if submitted.need is None:
            self._ended.append(submitted)
        else:
            self._drive(self._engine.let_wait(submitted))

    def submit_later(self, submit: Callable[[], None]) -> None:
        if not self._later:
            self._loop.call_soon(self._gather, 0)
        self._later.append(submit)

    def _gather(self, before: int) -> None:
        """Look at the sockets as long as that brings more requests."""
        here = len(self._later)
        if is_growing(before, here):
            self._loop.call_soon(self._gather, here)
        else:
            self._submit_all()

    def _submit_all(self) -> None:
        later, self._later = self._later, []
        for submit in dict.fromkeys(later):
            submit()

    def _begin(self) -> None:
        self._has_begun = True
        self._begin_round()
        self._loop.call_soon(self._end_round)

    def _end_round(self) -> None:
        """End the round, and tell the callers of operations that are over."""
        self._has_begun = False
        self._end_calls()
        ended, self._ended = self._ended, []
        tell_each(ended)
        tell_each(self._engine.take_ended())

    def _come_back(self, submitted: Submitted) -> None:
        self._loop.call_soon_threadsafe(self._take_back, submitted)

    def _take_back(self, submitted: Submitted) -> None:
        self._engine.take_back(submitted)
        self._drive([submitted])
        last = self._last_is_back
        if not self._engine.away and last is not None and not last.done():
            last.set_result(None)

    def _drive(self, ready: list[Submitted]) -> None:
        if not self._has_begun:
            self._begin()
        while ready:
            ready = self._engine.advance(ready)
        self._end_calls()
        self._engine.send_away()

    async def close(self) -> None:
        self._submit_all()
        if self._engine.away:
            self._last_is_back = self._loop.create_future()
            await self._last_is_back
        if self._has_begun:
            self._end_round()
