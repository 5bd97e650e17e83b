"""While a request waits, listen to what others do in the folders; where no events come, list them.

Nothing runs while no request waits, and only a slow timer while nothing happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from mq.commit.committer import Committer
from mq.commit.operation import Called
from mq.config import RELIST_WAITING_SECONDS
from mq.errors import QueueNotFound, StoreUnavailable
from mq.names import QueueName
from mq.store.indexing import relist
from mq.store.receiving.waiting import MAX_WAITING_RECEIVES, Waiters
from mq.store.shared_state import Workspace

_UNAVAILABLE_PAUSE_SECONDS = 0.1

_AT_ONCE = 100
"""The settings of this many queues are looked at in one go."""


class Watching:
    """Owns `waiting`, and tells it of every message that comes to a queue."""

    def __init__(self, work: Workspace, committer: Committer) -> None:
        self._work = work
        self._committer = committer
        self._loop = asyncio.get_running_loop()
        self._fd = -1 if work.ready.watch is None else work.ready.watch.fileno()
        self._is_draining = False
        self._relisting: asyncio.Task[None] | None = None
        self.waiting = Waiters(self._begin, self._end)
        work.ready.came = self.waiting.came
        work.settings.changed = lambda queue: self.waiting.came(queue, MAX_WAITING_RECEIVES)

    def close(self) -> None:
        """Let all requests that wait go."""
        self.waiting.stop()
        self._end()

    def wake_for_what_is_left(self, queue: QueueName, count: int) -> None:
        """Wake up to `count` waiting requests if messages were left to them by `count` receives,
        which found nothing more."""
        ready = self._work.ready.get(queue)
        if ready is not None and len(ready):
            self.waiting.wake(queue, count)

    def _begin(self) -> None:
        self._listen()
        self._relisting = self._loop.create_task(self._relist())

    def _end(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
        if self._relisting is not None:
            self._relisting.cancel()
            self._relisting = None
        self._work.counts.show_waiting({})

    def _listen(self) -> None:
        is_wanted = len(self.waiting) and not (self.waiting.is_stopped or self._is_draining)
        if self._fd >= 0 and is_wanted:
            self._loop.add_reader(self._fd, self._take_in_events)

    def _take_in_events(self) -> None:
        # It is not called again before these events are read.
        self._loop.remove_reader(self._fd)
        self._is_draining = True
        self._committer.submit(Called(self._work.ready.drain, (), self._drained))

    def _drained(self, result: object, error: BaseException | None) -> None:
        if error is None:
            self._listen_again()
        else:
            self._loop.call_later(_UNAVAILABLE_PAUSE_SECONDS, self._listen_again)

    def _listen_again(self) -> None:
        self._is_draining = False
        self._listen()

    async def _relist(self) -> None:
        while True:
            await asyncio.sleep(RELIST_WAITING_SECONDS)
            self._work.counts.show_waiting(self.waiting.parked())
            queues = self.waiting.queues()
            for some in (queues[at : at + _AT_ONCE] for at in range(0, len(queues), _AT_ONCE)):
                await self._look_at(some)

    async def _look_at(self, queues: Sequence[QueueName]) -> None:
        # If the store is not available, the next look finds what came meanwhile.
        with suppress(StoreUnavailable):
            await self._committer.call(self._look_at_settings, queues)
        for queue in queues:
            if not self._work.sees_all_events(queue):
                with suppress(StoreUnavailable):
                    await self._list(queue)

    def _look_at_settings(self, queues: Sequence[QueueName]) -> None:
        """Look for the end of a pause: requests that wait for it learn of it here."""
        for queue in queues:
            self._work.settings.of(queue)

    async def _list(self, queue: QueueName) -> None:
        try:
            await self._committer.run(relist(self._work, queue))
        except QueueNotFound:
            self.waiting.wake_all(queue)
