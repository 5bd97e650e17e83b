"""Fetches on the event loop: retried, waited for in line, checked before they are answered, and
given back when nobody waits for the answer any more."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

import structlog

from mq.commit import Committer
from mq.config import BUSY_WAIT_SECONDS
from mq.errors import QueueNotFound, StoreUnavailable
from mq.names import MessageId, QueueName
from mq.store import bodies, by_id
from mq.store.by_id import Guard
from mq.store.lease import Received, set_aside_leased
from mq.store.receive import Ask, receive_some
from mq.store.release import put_back
from mq.store.waiting import Waiter
from mq.store.watching import Watching
from mq.store.workspace import Retry, Workspace

log = structlog.get_logger(__name__)

T = TypeVar("T")

_TRIES = 4
"""How often a fetch is run again after the listing that it asked for."""

_PEER_WAIT_SECONDS = 0.004
_BUSY_PAUSE_SECONDS = (0.01, 1.0)
"""First and longest pause of a long poll while others hold all there is."""


class Fetches:
    """All that is received on one server."""

    def __init__(
        self,
        work: Workspace,
        committer: Committer,
        workers: Executor,
        list_queue: Callable[[QueueName], Awaitable[None]],
    ) -> None:
        self._work = work
        self._committer = committer
        self._workers = workers
        self._list_queue = list_queue
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching = Watching(work, committer, list_queue)
        self.waiting = self._watching.waiting

    async def close(self) -> None:
        """Let go whoever waits, and wait for what runs in the background."""
        await self._watching.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def fetch(self, queue: QueueName, ask: Ask, wait_seconds: float) -> list[Received]:
        """Take the oldest messages; waits for one up to `wait_seconds`, in order of arrival.

        Who waits comes before who does not. If the caller is cancelled the messages are released.
        Raises QueueNotFound, StoreUnavailable.
        """
        if wait_seconds > 0:
            return await self._fetch_in_line(queue, ask, self._loop.time() + wait_seconds)
        taken = await self._try(queue, ask)
        if isinstance(taken, list) and taken:
            return taken
        ready = self._work.ready.get(queue)
        if ready is not None and len(ready):
            # It was left for somebody who waits; see that somebody does.
            self.waiting.wake(queue, 1)
        return []

    async def _fetch_in_line(self, queue: QueueName, ask: Ask, deadline: float) -> list[Received]:
        pause, longest = _BUSY_PAUSE_SECONDS
        with self.waiting.enter(queue) as waiter:
            while not self.waiting.is_stopped:
                taken = await self._try_in_line(queue, ask, waiter)
                if isinstance(taken, list) and taken:
                    return taken
                until = deadline
                if taken is Retry.WAIT:
                    until = min(deadline, self._loop.time() + pause)
                    pause = min(2 * pause, longest)
                if not await waiter.woken(until) and self._loop.time() >= deadline:
                    break
        return []

    async def _try_in_line(
        self, queue: QueueName, ask: Ask, waiter: Waiter
    ) -> list[Received] | Retry:
        try:
            return await self._try(queue, ask, waiter)
        except QueueNotFound:
            # The others find out by themselves, at once.
            waiter.has_turn = False
            self.waiting.wake_all(queue)
            raise

    async def _try(
        self, queue: QueueName, ask: Ask, waiter: Waiter | None = None
    ) -> list[Received] | Retry:
        """Empty if there is nothing; Retry.WAIT if others hold all there is."""
        if self._work.config.peers:
            await self._wait_for_peers(queue)
        listings = 0
        while True:
            leave = self.waiting.count(queue) if waiter is None else waiter.ahead()
            if leave != ask.leave:
                ask = ask._replace(leave=leave)
            taken = await self._committer.run(
                receive_some(self._work, queue, ask), self._release_abandoned
            )
            if taken is Retry.LIST:
                if listings == _TRIES:
                    return []
                listings += 1
                await self._list_queue(queue)
            elif isinstance(taken, Retry) or not taken:
                return taken
            elif answerable := await self._check(taken):
                return answerable

    async def take(
        self, queue: QueueName, message_id: MessageId, visibility_ns: int, guard: Guard | None
    ) -> Received:
        """Take that message; see `mq.store.by_id`. If the caller is cancelled it is as before.
        Raises QueueNotFound, MessageNotFound, LeaseMismatch, StoreUnavailable."""

        async def take() -> Received | Retry:
            taken = await self._committer.run(
                by_id.take(self._work, queue, message_id, visibility_ns, guard),
                lambda taken: self._release_abandoned(
                    taken if isinstance(taken, Retry) else [taken]
                ),
            )
            if isinstance(taken, Retry):
                return taken
            answerable = await self._check([taken])
            return answerable[0] if answerable else Retry.WAIT

        return await self.until_free(message_id, take)

    async def release(self, queue: QueueName, message_id: MessageId, guard: Guard | None) -> None:
        """Release that message; see `mq.store.by_id`. Raises what `take` raises."""

        async def release() -> Retry | None:
            return await self._committer.run(by_id.release(self._work, queue, message_id, guard))

        await self.until_free(message_id, release)

    async def until_free(
        self, message_id: MessageId, attempt: Callable[[], Awaitable[T | Retry]]
    ) -> T:
        """Try again while somebody else holds the message's lock. Raises StoreUnavailable after
        BUSY_WAIT_SECONDS."""
        deadline = time.monotonic() + BUSY_WAIT_SECONDS
        while isinstance(outcome := await attempt(), Retry):
            if time.monotonic() > deadline:
                raise StoreUnavailable(
                    f"message {message_id} is held by another process, or on its way; try again"
                )
            await asyncio.sleep(0.002)
        return outcome

    async def put_back(self, received: Received) -> None:
        """Give a message back that its receiver never got. Never raises: its lease ends anyway."""
        try:
            await self._committer.run(put_back(self._work, received))
        except StoreUnavailable as error:
            log.warning("release failed", error=str(error))

    async def _wait_for_peers(self, queue: QueueName) -> None:
        """Beside other servers, hold back a little when few messages are left: less contention."""
        peers = self._work.config.peers
        ready = self._work.ready.get(queue)
        if ready is not None and len(ready) <= peers:
            await asyncio.sleep(random.uniform(0, _PEER_WAIT_SECONDS))

    async def _check(self, taken: list[Received]) -> list[Received]:
        """Check large bodies before their first byte is sent: a damaged one goes to `corrupt`, and
        one whose lease ran out meanwhile may be somebody else's."""
        large = [each for each in taken if each.body is None]
        if not large:
            return taken
        check = asyncio.ensure_future(
            bodies.in_worker(self._workers, bodies.find_damaged, self._work.files, large)
        )
        try:
            damaged = await asyncio.shield(check)
        except BaseException:
            # Not before the worker has let go of the files.
            check.add_done_callback(lambda _: self._release_abandoned(taken))
            raise
        now_ns = self._work.clock_ns()
        good = [each for each in taken if each not in damaged and each.visible_ns > now_ns]
        for each in taken:
            if each not in good:
                each.close(self._work.files)
        try:
            for each in damaged:
                await self._committer.run(set_aside_leased(self._work, each))
        except BaseException:
            self._release_abandoned(good)
            raise
        return good

    def _release_abandoned(self, taken: Sequence[Received] | Retry) -> None:
        """Nobody waits for them any more."""
        for received in () if isinstance(taken, Retry) else taken:
            received.close(self._work.files)
            task = self._loop.create_task(self.put_back(received))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
