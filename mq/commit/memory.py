"""The committer for roots without stable media: there is no barrier, and operations run as they
come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

from mq.commit.barrier import Unsynced
from mq.commit.engine import Engine, outcome, settle
from mq.commit.operation import Operation, Submitted
from mq.commit.rounds import tell_each

T = TypeVar("T")


class MemoryCommitter(Engine):
    """The committer of a root on tmpfs or ramfs, which have no stable medium. There is no barrier
    and no thread: each operation runs on the event loop at once. The operations of one turn of the
    loop are a round."""

    failure = None

    def __init__(
        self, begin_round: Callable[[], None], end_calls: Callable[[], None], workers: Executor
    ) -> None:
        super().__init__(end_calls, workers)
        self._begin_round = begin_round
        self._has_begun = False
        self._last_is_back: asyncio.Future[None] | None = None

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
        submitted.done = partial(settle, future, abandoned)
        self._begin_to_wait(submitted)
        return await outcome(future, abandoned)

    def submit(self, submitted: Submitted) -> None:
        if not self._has_begun:
            self._begin()
        submitted.advance_alone(met=Unsynced)
        if submitted.need is None:
            self._ended.append(submitted)
        else:
            self._begin_to_wait(submitted)

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

    def _begin_to_wait(self, submitted: Submitted) -> None:
        ready: list[Submitted] = []
        self._ready = ready
        self._wait(submitted)
        self._drive(ready)

    def _come_back(self, submitted: Submitted) -> None:
        self._loop.call_soon_threadsafe(self._take_back, submitted)

    def _take_back(self, submitted: Submitted) -> None:
        self._away -= 1
        self._drive([submitted])
        if not self._away and self._last_is_back is not None and not self._last_is_back.done():
            self._last_is_back.set_result(None)

    def _drive(self, ready: list[Submitted]) -> None:
        if not self._has_begun:
            self._begin()
        while ready:
            ready = self._advance(ready)
        self._end_calls()
        self._send_away()

    async def close(self) -> None:
        if self._away:
            self._last_is_back = self._loop.create_future()
            await self._last_is_back
        if self._has_begun:
            self._end_round()
