"""What a server does by itself: sweep, list again now and then, and remove what is too old."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any

import structlog

from mq.commit.committer import Committer
from mq.config import RELIST_WAITING_SECONDS, SWEEP_SECONDS
from mq.errors import QueueNotFound, StoreUnavailable
from mq.names import QueueName
from mq.spool.sweep import Sweeper
from mq.store.counts import OperationCounts
from mq.store.indexing import relist
from mq.store.queue.expiry import expire, queues_to_expire
from mq.store.shared_state import Workspace
from mq.store.store import Store

HINDERED_SWEEP_SECONDS = 1.0
"""How soon a server looks again for what a crash left, after an error of the disk."""

RELIST_SECONDS = 30.0
"""How often an index is compared with its folder, whatever inotify said."""

log = structlog.get_logger(__name__)


def sweep(sweeper: Sweeper, counts: OperationCounts) -> None:
    """Sweep once. Raises OSError if a folder of the root cannot be listed. An unforeseen error ends
    this sweep alone: it stops neither the next one nor the start of a server."""
    try:
        swept = sweeper.sweep()
    except OSError:
        counts.add_failed_sweep()
        raise
    except Exception:
        log.exception("sweep failed")
        counts.add_failed_sweep()
        return
    if sweeper.was_hindered:
        counts.add_failed_sweep()
    counts.add_corrupt(swept.corrupt)
    if any(swept):
        log.info("swept", **swept._asdict())


async def sweep_forever(
    sweeper: Sweeper, counts: OperationCounts, workers: ThreadPoolExecutor, sweep_now: asyncio.Event
) -> None:
    loop = asyncio.get_running_loop()
    pause = SWEEP_SECONDS
    while True:
        # wait_for() is not used: it would lose a cancellation that comes with the event.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await sweep_now.wait()
        sweep_now.clear()
        pause = HINDERED_SWEEP_SECONDS
        try:
            await loop.run_in_executor(workers, sweep, sweeper, counts)
            if not sweeper.was_hindered:
                pause = SWEEP_SECONDS
        except OSError as error:
            log.error("sweep failed", error=str(error))


def looks(
    store: Store, committer: Committer, work: Workspace, workers: Executor
) -> Iterator[Coroutine[Any, Any, None]]:
    """Return the looks that a store takes again and again while it is open."""
    yield _repeat(
        "listing again", partial(_relist_seconds, work), partial(_relist_all, committer, work)
    )
    yield _repeat(
        "looking for expired messages",
        lambda: SWEEP_SECONDS,
        partial(_expire_all, committer, work, workers),
    )
    yield _repeat("looking at the root", lambda: SWEEP_SECONDS, store.health.look_at_root)


async def _repeat(
    what: str, pause_seconds: Callable[[], float], look: Callable[[], Awaitable[None]]
) -> None:
    """Look again and again. An unforeseen error ends this look, but not the next one."""
    while True:
        await asyncio.sleep(pause_seconds())
        try:
            await look()
        except Exception:
            log.exception("a look failed", what=what)


def _relist_seconds(work: Workspace) -> float:
    return RELIST_WAITING_SECONDS if work.files.is_of_network else RELIST_SECONDS


async def _relist_all(committer: Committer, work: Workspace) -> None:
    """Compare each index with its folder, whatever the events said."""
    for queue in work.ready.names():
        try:
            await committer.run(relist(work, queue))
        except QueueNotFound:
            pass
        except StoreUnavailable as error:
            log.warning("listing failed", queue=queue, error=str(error))
        await _let_others_go_on()


async def _expire_all(committer: Committer, work: Workspace, workers: Executor) -> None:
    """Remove messages that are too old and that nobody receives."""
    loop = asyncio.get_running_loop()
    try:
        for queue in await loop.run_in_executor(workers, queues_to_expire, work):
            await _expire(committer, work, queue)
            await _let_others_go_on()
    except OSError as error:
        log.error("looking for expired messages failed", error=str(error))


async def _expire(committer: Committer, work: Workspace, queue: QueueName) -> None:
    try:
        await committer.run(expire(work, queue))
    except QueueNotFound:
        pass
    except StoreUnavailable as error:
        log.warning("expired messages were not removed", queue=queue, error=str(error))


async def _let_others_go_on() -> None:
    """Let requests have their turn after each queue. On a root in memory an operation may end
    without a wait, and there may be thousands of queues."""
    await asyncio.sleep(0)
