"""The health of a store, and its figures, as health checks and metrics ask for them."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import structlog

from mq.commit.committer import Committer
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder
from mq.metrics.histogram import CommitStats
from mq.names import QueueName
from mq.spool.root import root_id
from mq.spool.trouble import find_moved_folder, find_trouble
from mq.store.counts import OperationCounts
from mq.store.probe import probe
from mq.store.receiving.waiting import Waiters
from mq.store.shared_state import Workspace
from mq.store.survey import Survey, Surveyor, known_ready

log = structlog.get_logger(__name__)

LOOK_SECONDS = 3.0
"""How long a look at the root may take. The image's health check waits a second longer."""

T = TypeVar("T")


class FreeSpace(NamedTuple):
    """What is free for users other than root. `free_inodes` is None on a file system that makes
    inodes as it needs them."""

    free_bytes: int
    free_inodes: int | None


class StoreHealth:
    """Whether a store works, and how much it holds and does. Nothing here changes a message or
    holds one up."""

    def __init__(
        self, work: Workspace, committer: Committer, workers: Executor, waiting: Waiters
    ) -> None:
        self._work = work
        self._committer = committer
        self._workers = workers
        self._looking = ThreadPoolExecutor(1, "look")
        self._waiting = waiting
        self.root_id = root_id(work.spool)
        self._trouble: str | None = None
        self._is_short = False
        """Whether the disk had too little room at the last look."""
        self._is_silent = False
        """Whether the last look has had no answer yet."""
        self.moved: str | None = None
        """The folder of the root that was no longer the one that was opened, at the last look."""
        self._survey: asyncio.Task[Survey] | None = None
        self._surveyor = Surveyor(work.spool, work.clock_ns, work.report)

    def close(self) -> None:
        """Wait for the last look at the root. There is none after it."""
        self._looking.shutdown()

    @property
    def counts(self) -> OperationCounts:
        return self._work.counts

    @property
    def commits(self) -> CommitStats:
        return self._committer.stats

    def waiting_receives(self) -> dict[QueueName, int]:
        """Return how many receives wait for a message at this server, for each queue for which some
        do. One that waits for several counts for each. Called on the event loop."""
        return self._waiting.parked()

    def waiting_requests(self) -> int:
        """Return how many receives wait for a message at this server. Called on the event loop."""
        return self._waiting.parked_requests()

    def paused_queues(self) -> list[str]:
        """Return the queues that are paused. It costs no look at the disk: the server looks at the
        settings of every queue each SWEEP_SECONDS, and at once when it changes them."""
        return self._work.settings.paused()

    @property
    def failure(self) -> str | None:
        """Why everything is refused: a sync failed, and the store is not reopened yet."""
        return self._committer.failure

    def is_alive(self) -> bool:
        """Whether the store works; if not, only a restart helps."""
        return self._committer.is_alive()

    async def find_trouble(self) -> str | None:
        """Return why nobody can work on the root now, in words, or None. Raises OSError, also if
        the disk does not answer."""
        return await self._look(find_trouble, self._work.spool)

    async def look_at_root(self) -> None:
        """Note and log what keeps the root from being worked on, or publish from being taken, and
        when that is over."""
        try:
            trouble = await self.find_trouble()
            self.moved = await self._look(find_moved_folder, self._work.spool)
            self._work.floor.why_none = self.moved
            self._note_shortage(await self.find_shortage())
        except OSError as error:
            trouble = f"the root cannot be looked at: {error.strerror}"
        if trouble is not None and trouble != self._trouble:
            log.error("root in trouble", why=trouble)
        elif trouble is None and self._trouble is not None:
            log.warning("root in order again")
        self._trouble = trouble

    def _note_shortage(self, shortage: str | None) -> None:
        if shortage is not None and not self._is_short:
            log.warning("publish refused", why=shortage)
        elif shortage is None and self._is_short:
            log.warning("publish taken again")
        self._is_short = shortage is not None

    async def find_shortage(self) -> str | None:
        """Return what the disk has too little of, in words, or None. Raises OSError, also if the
        disk does not answer."""
        return await self._look(self._work.floor.find_shortage)

    async def probe(self) -> None:
        """Send a file the way of a publish. Raises StoreUnavailable."""
        await self._committer.run(probe(self._work))

    async def free_space(self) -> FreeSpace:
        """Return what is free on the disk. Raises OSError."""
        status = await self._in_worker(os.fstatvfs, self._work.spool.fd(Folder.NEW))
        inodes = status.f_favail if status.f_files else None
        return FreeSpace(status.f_bavail * status.f_frsize, inodes)

    async def survey(self) -> Survey:
        """Count all messages. Callers that ask meanwhile get the same survey. Raises OSError."""
        if self._survey is None or self._survey.done():
            self._survey = asyncio.create_task(self._take_survey())
        return await asyncio.shield(self._survey)

    async def _take_survey(self) -> Survey:
        try:
            known = await self._committer.call(known_ready, self._work)
        except StoreUnavailable:
            known = {}
        return await self._in_worker(self._surveyor.survey, known)

    async def _look(self, look: Callable[..., str | None], *arguments: object) -> str | None:
        """Return what a short look at the disk finds. Raises OSError, also if there is no answer
        within LOOK_SECONDS; until there is one nobody looks again. A thread of its own looks: the
        workers may all be busy with a disk that is only slow."""
        if not self._is_silent:
            call = asyncio.get_running_loop().run_in_executor(self._looking, look, *arguments)
            call.add_done_callback(self._hear)
            if (await asyncio.wait({call}, timeout=LOOK_SECONDS))[0]:
                return call.result()
            self._is_silent = True
        why = f"no answer within {LOOK_SECONDS:g} seconds; the file system does not respond"
        raise TimeoutError(errno.ETIMEDOUT, why)

    def _hear(self, looking: asyncio.Future[str | None]) -> None:
        self._is_silent = False
        if not looking.cancelled():
            looking.exception()  # Perhaps nobody waits for it any more.

    async def _in_worker(self, function: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._workers, function, *arguments)
