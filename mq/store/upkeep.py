"""What a server does by itself: open the root, sweep, list again now and then, let go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import structlog

from mq.barrier import SyncBarrier
from mq.commit import Committer, GroupCommitter, MemoryCommitter
from mq.config import HINDERED_SWEEP_SECONDS, RELIST_SECONDS, SWEEP_SECONDS, ServerConfig
from mq.errors import ExitCode, QueueNotFound, StartRefused, StoreUnavailable
from mq.lifecycle import Folder
from mq.logs import report_left
from mq.names import MessageIds, QueueName, is_message_id, is_queue_name
from mq.spool.files import Files
from mq.spool.folders import Spool
from mq.spool.root import open_root
from mq.spool.sweep import Sweeper
from mq.store.counts import Counts
from mq.store.queues import needs_listing
from mq.store.store import Store
from mq.store.workspace import Workspace

log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_store(config: ServerConfig, files: Files | None = None) -> AsyncIterator[Store]:
    """A store on `config.root`, made if it is missing, swept, and kept up until the block ends.

    At the end everything pending is finished first. Raises StartRefused.
    """
    spool, file_system = open_root(config.root, config.mode, files or Files())
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
    sweeper = Sweeper(spool, report_left)
    try:
        await asyncio.to_thread(catch_up, work, sweeper)
        committer = _start_committer(work, sweeper, file_system.is_in_memory)
        workers = ThreadPoolExecutor(config.workers, "worker")
        store = Store(work, committer, workers)
        timers = [
            asyncio.create_task(_sweep_forever(sweeper, work.counts, workers, sweep_now)),
            asyncio.create_task(_relist_forever(store, committer, work)),
        ]
        try:
            yield store
        finally:
            await _cancel(timers)
            await store.close()
            await committer.close()
            await asyncio.to_thread(workers.shutdown)
    finally:
        work.ready.close()
        spool.close()


def _start_committer(work: Workspace, sweeper: Sweeper, is_in_memory: bool) -> Committer:
    if is_in_memory:
        return MemoryCommitter(work.begin_batch, work.end_calls)

    def recover() -> None:
        work.spool.reopen()
        _sweep(sweeper, work.counts)

    return GroupCommitter(SyncBarrier(work.spool), work.begin_batch, work.end_calls, recover)


def catch_up(work: Workspace, sweeper: Sweeper) -> None:
    """Before the first request: no id below one that the root has, and nothing left in `new`."""
    try:
        _sweep(sweeper, work.counts)
        _start_ids_above(work.ids, work.spool, work.report)
    except OSError as error:
        raise StartRefused(
            ExitCode.ROOT, f"root {work.spool.root}: {error.strerror}: {error.filename}"
        ) from error


def _start_ids_above(ids: MessageIds, spool: Spool, report: Callable[[str, str], None]) -> None:
    """Looks at every name; reports what no request can reach."""
    for folder in (Folder.NEW, Folder.DELAY, Folder.REMOVE):
        for name in spool.names(folder):
            ids.start_above(name.partition(":")[2])
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
                ids.start_above(name)
            else:
                report(f"{Folder.QUEUES}/{queue}/{name}", "not an id of a message: rename it")


def _sweep(sweeper: Sweeper, counts: Counts) -> None:
    swept = sweeper.sweep()
    counts.add_corrupt(swept.corrupt)
    if any(swept):
        log.info("swept", **swept._asdict())


async def _sweep_forever(
    sweeper: Sweeper, counts: Counts, workers: ThreadPoolExecutor, sweep_now: asyncio.Event
) -> None:
    loop = asyncio.get_running_loop()
    pause = SWEEP_SECONDS
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(sweep_now.wait(), pause)
        sweep_now.clear()
        pause = HINDERED_SWEEP_SECONDS
        try:
            await loop.run_in_executor(workers, _sweep, sweeper, counts)
            if not sweeper.was_hindered:
                pause = SWEEP_SECONDS
        except OSError as error:
            log.error("sweep failed", error=str(error))


async def _relist_forever(store: Store, committer: Committer, work: Workspace) -> None:
    """Compare each index with its folder now and then, whatever the events said."""
    while True:
        await asyncio.sleep(RELIST_SECONDS)
        for queue in work.ready.names():
            try:
                if await committer.run(needs_listing(work, queue)):
                    await store.list_queue(queue)
            except QueueNotFound:
                continue
            except StoreUnavailable as error:
                log.warning("listing failed", queue=queue, error=str(error))


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
