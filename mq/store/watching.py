"""While somebody waits: listen to what others do in the folders; where no events come, list them.

Nothing runs while nobody waits, and nothing but a slow timer while nothing happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mq.commit import Committer
from mq.config import RELIST_WAITING_SECONDS
from mq.errors import QueueNotFound, StoreUnavailable
from mq.names import QueueName
from mq.store.queues import drain_events, needs_listing
from mq.store.waiting import Waiting
from mq.store.workspace import Workspace

_UNAVAILABLE_PAUSE_SECONDS = 0.1


class Watching:
    """Owns `waiting`, which learns from it of every message that comes to a queue."""

    def __init__(
        self,
        work: Workspace,
        committer: Committer,
        list_queue: Callable[[QueueName], Awaitable[None]],
    ) -> None:
        self._work = work
        self._committer = committer
        self._list_queue = list_queue
        self._loop = asyncio.get_running_loop()
        self._fd = -1 if work.ready.watch is None else work.ready.watch.fileno()
        self._draining: asyncio.Task[None] | None = None
        self._relisting: asyncio.Task[None] | None = None
        self.waiting = Waiting(self._begin, self._end)
        work.ready.came = self.waiting.came

    async def close(self) -> None:
        """Let go whoever waits; on return nothing runs."""
        self.waiting.stop()
        self._end()
        if self._draining is not None:
            await self._draining

    def _begin(self) -> None:
        if self._draining is None:
            self._listen()
        self._relisting = self._loop.create_task(self._relist())

    def _end(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
        if self._relisting is not None:
            self._relisting.cancel()
            self._relisting = None

    def _listen(self) -> None:
        if self._fd >= 0 and len(self.waiting) and not self.waiting.is_stopped:
            self._loop.add_reader(self._fd, self._take_in_events)

    def _take_in_events(self) -> None:
        # Not again before these are read.
        self._loop.remove_reader(self._fd)
        self._draining = self._loop.create_task(self._drain())

    async def _drain(self) -> None:
        try:
            await self._committer.run(drain_events(self._work))
        except StoreUnavailable:
            await asyncio.sleep(_UNAVAILABLE_PAUSE_SECONDS)
        finally:
            self._draining = None
            self._listen()

    async def _relist(self) -> None:
        while True:
            await asyncio.sleep(RELIST_WAITING_SECONDS)
            for queue in self.waiting.queues():
                if not self._work.sees_all_events(queue):
                    await self._look_at(queue)

    async def _look_at(self, queue: QueueName) -> None:
        try:
            if await self._committer.run(needs_listing(self._work, queue)):
                await self._list_queue(queue)
        except QueueNotFound:
            self.waiting.wake_all(queue)
        except StoreUnavailable:
            pass  # the next look finds what came meanwhile
