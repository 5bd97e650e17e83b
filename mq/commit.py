"""Group commit: one barrier serves everyone who waits.

The committer takes all pending operations, runs each up to its `yield`, issues one barrier, runs
them to their end and wakes the event loop once. It does not linger: while a barrier runs, the next
batch gathers.

A failed barrier fails its whole batch: StoreUnavailable is raised at each `yield`, where the
operation takes back the name it made. The committer then refuses everything while it reopens the
store and sweeps, with backoff, and goes on by itself. A sync is never tried again for the same
data: after an error the kernel may have marked the pages clean (fsync(2), and Rebello et al.,
"Can Applications Recover from fsync Failures?", USENIX ATC 2020).
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import structlog

from mq.barrier import Barrier, Unsynced
from mq.config import (
    MAX_BATCH_OPERATIONS,
    MAX_PENDING_OPERATIONS,
    RECOVERY_BACKOFF_SECONDS,
)
from mq.errors import StoreUnavailable
from mq.histogram import CommitStats
from mq.lifecycle import FIXED_FOLDERS
from mq.operation import Operation, Waiting, unavailable

log = structlog.get_logger(__name__)

T = TypeVar("T")


class GroupCommitter:
    """The committer thread of a root on stable media.

    `begin_batch` is called before each batch, `end_calls` whenever its operations have done file
    calls; `recover` reopens the store and sweeps it after a failed barrier, and raises OSError
    while that does not work.
    """

    def __init__(
        self,
        barrier: Barrier,
        begin_batch: Callable[[], None],
        end_calls: Callable[[], None],
        recover: Callable[[], None],
    ) -> None:
        self._barrier = barrier
        self._begin_batch = begin_batch
        self._end_calls = end_calls
        self._recover = recover
        self.stats = CommitStats()
        self._loop = asyncio.get_running_loop()
        self._pending: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="committer")
        self._start()

    def _start(self) -> None:
        self._thread.start()

    @property
    def failure(self) -> str | None:
        """Why everything is refused now; None as a rule."""
        return self._failure

    def is_alive(self) -> bool:
        """False once a defect ended the thread: only a restart helps."""
        return self._thread.is_alive()

    async def run(self, operation: Operation[T], abandoned: Callable[[T], None] | None = None) -> T:
        """Run an operation and make it durable. Raises what it raises, or StoreUnavailable.

        If the caller is cancelled meanwhile the operation still runs; its result then goes to
        `abandoned`.
        """
        if self._failure is not None:
            raise StoreUnavailable(self._failure)
        if self._pending.qsize() >= MAX_PENDING_OPERATIONS:
            raise StoreUnavailable("too many requests wait for the disk; try again later")
        waiting = Waiting(operation, self._loop.create_future())
        self._pending.put(waiting)
        try:
            result: T = await waiting.future
        except asyncio.CancelledError:
            waiting.abandoned = abandoned
            if waiting.future.done() and not waiting.future.cancelled():
                # Resolved, but the cancellation came before its task could run.
                waiting.hand_over()
            raise
        return result

    async def close(self) -> None:
        """Finish what is pending and stop. Nothing may be run afterwards."""
        self._stopping.set()
        self._pending.put(None)
        await asyncio.to_thread(self._thread.join)
        self._barrier.close()

    def _run(self) -> None:
        try:
            self._run_batches()
        except BaseException:
            log.exception("the committer ended by a defect")
            self._failure = "the server has a defect and must be restarted"
            self._refuse_pending(self._failure)

    def _run_batches(self) -> None:
        again: list[Waiting] = []
        while (batch := self._take(again)) is not None:
            again = self._run_batch(batch)

    def _run_batch(self, batch: list[Waiting]) -> list[Waiting]:
        """Commit a batch and wake those that are done; returns those that are not."""
        started = time.perf_counter()
        failure = self._commit(batch)
        self.stats.durations.observe(time.perf_counter() - started)
        self.stats.operations.observe(len(batch))
        done = [waiting for waiting in batch if waiting.unsynced is None]
        self._loop.call_soon_threadsafe(_resolve, done)
        again = [waiting for waiting in batch if waiting.unsynced is not None]
        if failure is not None:
            self._reopen(failure)
        return again

    def _take(self, again: list[Waiting]) -> list[Waiting] | None:
        """All that is pending, up to the limit; waits for the first. None when stopping."""
        batch = again
        while len(batch) < MAX_BATCH_OPERATIONS:
            try:
                waiting = self._pending.get(block=not batch)
            except queue.Empty:
                break
            if waiting is None:
                if not batch:
                    return None
                self._pending.put(None)
                break
            batch.append(waiting)
        return batch

    def _commit(self, batch: list[Waiting]) -> str | None:
        """One batch. Those that stand at another `yield` afterwards join the next batch."""
        self._begin_batch()
        for waiting in batch:
            if waiting.unsynced is None:
                waiting.advance()
        self._end_calls()
        synced = [waiting for waiting in batch if waiting.unsynced is not None]
        if not synced:
            return None
        failure = None
        try:
            self._barrier.make_durable([w.unsynced for w in synced if w.unsynced is not None])
        except OSError as error:
            log.error("sync failed", error=str(error), operations=len(synced))
            failure = (
                f"the store could not be synced ({error.strerror}); "
                "the outcome is unknown; try again"
            )
        for waiting in synced:
            waiting.advance(failure)
        self._end_calls()
        return failure

    def _reopen(self, failure: str) -> None:
        """The latch: refuse everything until the store has been reopened and swept."""
        self._failure = failure
        pause, longest = RECOVERY_BACKOFF_SECONDS
        while not self._stopping.is_set():
            self._refuse_pending(failure)
            try:
                self._barrier.reopen()
                self._recover()
                self._barrier.make_durable([Unsynced((), FIXED_FOLDERS)])
                break
            except OSError as error:
                log.error("store not reopened yet", error=str(error))
                self._stopping.wait(pause)
                pause = min(2 * pause, longest)
        else:
            self._refuse_pending(failure)
            return
        log.warning("store reopened")
        self._failure = None

    def _refuse_pending(self, failure: str) -> None:
        refused = []
        while not self._pending.empty():
            waiting = self._pending.get()
            if waiting is None:
                self._pending.put(None)
                break
            waiting.operation.close()
            waiting.error = StoreUnavailable(failure)
            refused.append(waiting)
        self._loop.call_soon_threadsafe(_resolve, refused)


def _resolve(done: list[Waiting]) -> None:
    for waiting in done:
        waiting.resolve()


class MemoryCommitter:
    """The committer of a root on tmpfs or ramfs, which have no stable medium: no barrier, no
    thread, each operation runs on the event loop at once. Those of one turn of the loop are a
    batch."""

    failure = None

    def __init__(self, begin_batch: Callable[[], None], end_calls: Callable[[], None]) -> None:
        self._begin_batch = begin_batch
        self._end_calls = end_calls
        self._loop = asyncio.get_running_loop()
        self._has_begun = False
        self.stats = CommitStats()

    def is_alive(self) -> bool:
        return True

    async def run(self, operation: Operation[T], abandoned: Callable[[T], None] | None = None) -> T:
        """Run an operation. Raises what it raises, or StoreUnavailable."""
        if not self._has_begun:
            self._has_begun = True
            self._begin_batch()
            self._loop.call_soon(self._end_batch)
        try:
            while True:
                next(operation)
        except StopIteration as stop:
            result: T = stop.value
            return result
        except OSError as error:
            raise unavailable(error) from error

    def _end_batch(self) -> None:
        self._has_begun = False
        self._end_calls()

    async def close(self) -> None:
        """Nothing may be run afterwards."""
        if self._has_begun:
            self._end_batch()


Committer = GroupCommitter | MemoryCommitter
