"""How a store is: what health checks and metrics ask."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple, TypeVar

from mq.commit import Committer
from mq.errors import StoreUnavailable
from mq.histogram import CommitStats
from mq.lifecycle import Folder
from mq.store.counts import Counts
from mq.store.probe import probe
from mq.store.survey import Survey, Surveyor, known_ready
from mq.store.workspace import Workspace

T = TypeVar("T")


class Room(NamedTuple):
    """What is free for others than the user root. `free_inodes` is None on a file system that
    makes them as it needs them."""

    free_bytes: int
    free_inodes: int | None


class Condition:
    """Nothing here changes a message or waits on the way of one."""

    def __init__(self, work: Workspace, committer: Committer, workers: Executor) -> None:
        self._work = work
        self._committer = committer
        self._workers = workers
        self._survey: asyncio.Task[Survey] | None = None
        self._surveyor = Surveyor(work.spool, work.clock_ns)

    @property
    def counts(self) -> Counts:
        return self._work.counts

    @property
    def commits(self) -> CommitStats:
        return self._committer.stats

    @property
    def failure(self) -> str | None:
        """Why everything is refused: a sync failed, and the store is not reopened yet."""
        return self._committer.failure

    def is_alive(self) -> bool:
        """False if only a restart helps."""
        return self._committer.is_alive()

    async def find_shortage(self) -> str | None:
        """What there is too little of on the disk, in words. Raises OSError."""
        return await self._in_worker(self._work.find_shortage)

    async def probe(self) -> None:
        """Send a file the way of a publish. Raises StoreUnavailable."""
        await self._committer.run(probe(self._work))

    async def room(self) -> Room:
        """Raises OSError."""
        status = await self._in_worker(os.fstatvfs, self._work.spool.fd(Folder.NEW))
        inodes = status.f_favail if status.f_files else None
        return Room(status.f_bavail * status.f_frsize, inodes)

    async def survey(self) -> Survey:
        """Count all messages; whoever asks meanwhile gets the same one. Raises OSError."""
        if self._survey is None or self._survey.done():
            self._survey = asyncio.create_task(self._take_survey())
        return await asyncio.shield(self._survey)

    async def _take_survey(self) -> Survey:
        try:
            known = await self._committer.run(known_ready(self._work))
        except StoreUnavailable:
            known = {}
        return await self._in_worker(self._surveyor.survey, known)

    async def _in_worker(self, function: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._workers, function, *arguments)
