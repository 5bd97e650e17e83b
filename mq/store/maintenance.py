"""What a server does by itself: open the root, sweep, list again now and then, and let go at the
end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import structlog

from mq.command.logs import report_left
from mq.commit.barrier import SyncBarrier
from mq.commit.committer import Committer
from mq.commit.fast_rounds import FastRounds
from mq.commit.gathering import Gathering
from mq.commit.group import GroupCommitter
from mq.commit.memory import MemoryCommitter
from mq.config import (
    HINDERED_SWEEP_SECONDS,
    RELIST_SECONDS,
    RELIST_WAITING_SECONDS,
    SWEEP_SECONDS,
    ServerConfig,
)
from mq.disk.files import Files
from mq.errors import ExitCode, QueueNotFound, StartRefused, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import QueueName, ServerIds, is_message_id, is_queue_name, is_server_id
from mq.spool.folders import Spool
from mq.spool.message.held import seal_at
from mq.spool.network_files import files_for
from mq.spool.queue.settings_file import SETTINGS_FILE
from mq.spool.root import open_root
from mq.spool.sweep import Sweeper
from mq.store.background import running
from mq.store.context import Workspace
from mq.store.counts import OperationCounts
from mq.store.expiry import expire, queues_to_expire
from mq.store.indexing import relist
from mq.store.store import Store

log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_store(
    config: ServerConfig, files: Files | None = None, counts: OperationCounts | None = None
) -> AsyncIterator[Store]:
    """Open a store on `config.root`, which is made if it is missing, and swept. It is kept up until
    the block ends. What it does is counted in `counts`.

    At the end everything pending is finished first. Raises StartRefused.
    """
    spool, file_system = open_root(config.root, config.mode, files or files_for(config.root))
    spool.report_left = report_left
    for warning in file_system.warnings:
        log.warning("root", warning=warning)
    loop = asyncio.get_running_loop()
    sweep_now = asyncio.Event()

    def request_sweep() -> None:
        loop.call_soon_threadsafe(sweep_now.set)

    work = Workspace(
        spool,
        config,
        request_sweep,
        file_system.stamp_granularity_ns,
        is_network=file_system.is_network,
    )
    work.counts = counts or work.counts
    sweeper = Sweeper(spool, report_left)
    try:
        await asyncio.to_thread(catch_up, work, sweeper)
        workers = ThreadPoolExecutor(config.workers, "worker")
        committer = _start_committer(work, sweeper, file_system.is_in_memory, workers)
        store = Store(work, committer, workers)
        sweeps = _sweep_forever(sweeper, work.counts, workers, sweep_now)
        try:
            async with running(sweeps, *_looks(store, committer, work, workers)):
                yield store
        finally:
            await store.close()
            await committer.close()
            await asyncio.to_thread(workers.shutdown)
            await asyncio.to_thread(store.put_back_left)
    finally:
        work.ready.close()
        spool.close()


def _start_committer(
    work: Workspace, sweeper: Sweeper, is_in_memory: bool, workers: Executor
) -> Committer:
    if is_in_memory:
        return MemoryCommitter(work.begin_round, work.end_calls, workers)

    def recover() -> None:
        work.spool.reopen()
        _sweep(sweeper, work.counts)

    gathering = Gathering() if work.config.peers else None
    # Another host can keep its file system waiting for long without a warning.
    fast_rounds = None if work.spool.files.is_of_network else FastRounds()
    return GroupCommitter(
        SyncBarrier(work.spool),
        work.begin_round,
        work.end_calls,
        recover,
        workers,
        gathering=gathering,
        fast_rounds=fast_rounds,
    )


def catch_up(work: Workspace, sweeper: Sweeper) -> None:
    """Prepare for the first request: no new id is below one that the root has, and nothing is left
    in `new`."""
    try:
        _sweep(sweeper, work.counts)
        _start_ids_above(work.ids, work.spool, work.report)
    except OSError as error:
        raise StartRefused(
            ExitCode.ROOT, f"root {work.spool.root}: {error.strerror}: {error.filename}"
        ) from error


def _start_ids_above(ids: ServerIds, spool: Spool, report: Callable[[str, str], None]) -> None:
    """Look at every name, and at the seal if a producer made the id. Names that no request can
    reach are reported."""
    for folder in (Folder.NEW, Folder.DELAY, Folder.REMOVE):
        for name in spool.names(folder):
            _start_after(ids, spool, folder, name)
    for queue in spool.names(Folder.QUEUES):
        if not is_queue_name(queue):
            report(f"{Folder.QUEUES}/{queue}", "not a name of a queue: rename it")
            continue
        try:
            names = spool.names_in_queue(QueueName(queue))
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            report(f"{Folder.QUEUES}/{queue}", "no folder")
            continue
        for name in names:
            if is_message_id(name):
                _start_after(ids, spool, Folder.QUEUES, f"{queue}/{name}")
            elif name != SETTINGS_FILE:
                report(f"{Folder.QUEUES}/{queue}/{name}", "not an id of a message: rename it")


def _start_after(ids: ServerIds, spool: Spool, folder: Folder, name: str) -> None:
    message_id = name.rpartition("/" if folder is Folder.QUEUES else ":")[2]
    if is_server_id(message_id):
        ids.start_above(message_id)
        return
    with contextlib.suppress(OSError):
        seal = seal_at(spool, folder, name)
        if seal is None:
            ids.start_above(message_id)
        else:
            ids.start_after(seal.published_ns)


def _sweep(sweeper: Sweeper, counts: OperationCounts) -> None:
    """Sweep once. Raises OSError if a folder of the root cannot be listed. An unforeseen error
    costs this sweep, but not the next one, and no server its start."""
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


async def _sweep_forever(
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
            await loop.run_in_executor(workers, _sweep, sweeper, counts)
            if not sweeper.was_hindered:
                pause = SWEEP_SECONDS
        except OSError as error:
            log.error("sweep failed", error=str(error))


def _looks(
    store: Store, committer: Committer, work: Workspace, workers: Executor
) -> Iterator[Coroutine[Any, Any, None]]:
    """Return what is looked at again and again, as long as the store is open."""
    yield _repeat(
        "listing again", partial(_relist_seconds, work), partial(_relist_all, committer, work)
    )
    yield _repeat(
        "looking for expired messages",
        lambda: SWEEP_SECONDS,
        partial(_expire_all, committer, work, workers),
    )
    yield _repeat("looking at the root", lambda: SWEEP_SECONDS, store.condition.look_at_root)


async def _repeat(
    what: str, pause_seconds: Callable[[], float], look: Callable[[], Awaitable[None]]
) -> None:
    """Look again and again. An unforeseen error costs this look, but not the next one."""
    while True:
        await asyncio.sleep(pause_seconds())
        try:
            await look()
        except Exception:
            log.exception("a look failed", what=what)


def _relist_seconds(work: Workspace) -> float:
    return RELIST_SECONDS if work.hears_of_all else RELIST_WAITING_SECONDS


async def _relist_all(committer: Committer, work: Workspace) -> None:
    """Compare each index with its folder, whatever the events said."""
    for queue in work.ready.names():
        try:
            await committer.run(relist(work, queue))
        except QueueNotFound:
            continue
        except StoreUnavailable as error:
            log.warning("listing failed", queue=queue, error=str(error))


async def _expire_all(committer: Committer, work: Workspace, workers: Executor) -> None:
    """Remove messages that are too old and that nobody receives."""
    loop = asyncio.get_running_loop()
    try:
        for queue in await loop.run_in_executor(workers, queues_to_expire, work):
            await _expire(committer, work, queue)
    except OSError as error:
        log.error("looking for expired messages failed", error=str(error))


async def _expire(committer: Committer, work: Workspace, queue: QueueName) -> None:
    try:
        await committer.run(expire(work, queue))
    except QueueNotFound:
        pass
    except StoreUnavailable as error:
        log.warning("expired messages were not removed", queue=queue, error=str(error))
