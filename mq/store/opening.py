"""Open a store on a root, keep it up, and let go at the end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager

import structlog

from mq.command.logs import report_left
from mq.command.waits import telling_of_a_wait
from mq.commit.barrier import Barrier
from mq.commit.committer import Committer
from mq.commit.gathering import Gathering
from mq.commit.group import GroupCommitter
from mq.commit.light_rounds import LightRounds
from mq.commit.memory import MemoryCommitter
from mq.config import ServerConfig
from mq.disk.files import Files
from mq.errors import ExitCode, StartRefused
from mq.ids import ServerIds, is_server_id
from mq.lifecycle import Folder
from mq.names import QueueName, is_message_id, is_queue_name
from mq.spool.disk_errors import FAULTS_OF_ONE_QUEUE
from mq.spool.file_system import FileSystem
from mq.spool.message.held import seal_at
from mq.spool.network_files import files_for
from mq.spool.queue.settings_file import SETTINGS_FILE
from mq.spool.root import open_root
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from mq.store.background import running
from mq.store.counts import OperationCounts
from mq.store.maintenance import looks, sweep, sweep_forever
from mq.store.shared_state import Workspace
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
    with telling_of_a_wait(config.root, "an answer of its file system"):
        spool, file_system = await asyncio.to_thread(_open_root, config, files)
    loop = asyncio.get_running_loop()
    sweep_now = asyncio.Event()

    def request_sweep() -> None:
        loop.call_soon_threadsafe(sweep_now.set)

    work = Workspace(spool, config, request_sweep, file_system.stamp_granularity_ns)
    work.counts = counts or work.counts
    sweeper = Sweeper(spool, report_left)
    try:
        with telling_of_a_wait(config.root, "a sweep, and a look at every name"):
            await asyncio.to_thread(catch_up, work, sweeper)
        workers, committer = _start_threads(work, sweeper, file_system.is_in_memory)
        store = Store(work, committer, workers)
        sweeps = sweep_forever(sweeper, work.counts, workers, sweep_now)
        try:
            async with running(sweeps, *looks(store, committer, work, workers)):
                yield store
        finally:
            await store.close()
            await committer.close()
            await asyncio.to_thread(workers.shutdown)
            await asyncio.to_thread(store.health.close)
            await asyncio.to_thread(store.put_back_left)
    finally:
        work.ready.close()
        work.reservations.close()
        spool.close()


def _open_root(config: ServerConfig, files: Files | None) -> tuple[Spool, FileSystem]:
    """Open the root, and log what an operator must know of its file system."""
    spool, file_system = open_root(config.root, config.mode, files or files_for(config.root))
    spool.report_left = report_left
    if config.peers and file_system.kind == "xfs":
        # There a syncfs also waits for what the others write. Alone it is quicker.
        spool.has_data_log = spool.has_one_log
    for warning in file_system.warnings:
        log.warning("root", warning=warning)
    return spool, file_system


def _start_threads(
    work: Workspace, sweeper: Sweeper, is_in_memory: bool
) -> tuple[ThreadPoolExecutor, Committer]:
    """Start all workers, and the committer. By itself an executor starts a thread when there is
    work for it. If the system has none left then, it refuses that work and keeps it in line all the
    same: it would be done after its operation has ended, and what that opens would stay open.
    Raises StartRefused, and no thread is left then."""
    number = work.config.workers
    workers, all_are_here = ThreadPoolExecutor(number, "worker"), threading.Barrier(number)
    try:
        for _ in range(number):
            workers.submit(all_are_here.wait)
        return workers, _start_committer(work, sweeper, is_in_memory, workers)
    except RuntimeError as error:
        all_are_here.abort()
        workers.shutdown()  # The end of the process takes a thread too.
        raise StartRefused(
            ExitCode.SYSTEM,
            f"the system has not enough threads for --workers={number} ({error}): raise its limit "
            "of processes (ulimit -u, TasksMax= of a unit, pids_limit of a container), or give "
            "fewer",
        ) from error


def _start_committer(
    work: Workspace, sweeper: Sweeper, is_in_memory: bool, workers: Executor
) -> Committer:
    if is_in_memory:
        return MemoryCommitter(work.begin_round, work.end_calls, workers)

    def recover() -> None:
        work.reservations.close()
        work.spool.reopen()
        sweep(sweeper, work.counts)

    gathering = Gathering() if work.config.peers else None
    # A network file system may block for long without a warning.
    light_rounds = None if work.spool.files.is_of_network else LightRounds()
    committer = GroupCommitter(
        Barrier(work.spool),
        work.begin_round,
        work.end_calls,
        recover,
        workers,
        gathering=gathering,
        light_rounds=light_rounds,
    )
    committer.start()
    return committer


def catch_up(work: Workspace, sweeper: Sweeper) -> None:
    """Prepare for the first request: no new id is below one that the root has, and nothing is left
    in `new`."""
    try:
        sweep(sweeper, work.counts)
        _start_ids_above(work.ids, work.spool, work.report)
    except OSError as error:
        raise StartRefused(
            ExitCode.ROOT, f"root {work.spool.root}: {error.strerror}: {error.filename}"
        ) from error


def _start_ids_above(ids: ServerIds, spool: Spool, report: Callable[[str, str], None]) -> None:
    """Look at every name, and at the seal if a producer made the id. Names that no request can
    reach are reported, and queues whose folders cannot be opened or read."""
    for folder in (Folder.NEW, Folder.DELAY, Folder.REMOVE):
        for name in spool.names(folder):
            _start_after(ids, spool, folder, name)
    for queue in spool.names(Folder.QUEUES):
        if not is_queue_name(queue):
            report(f"{Folder.QUEUES}/{queue}", "not a name of a queue: rename it")
            continue
        for name in _names_in_queue(spool, QueueName(queue), report):
            if is_message_id(name):
                _start_after(ids, spool, Folder.QUEUES, f"{queue}/{name}")
            elif name != SETTINGS_FILE:
                report(f"{Folder.QUEUES}/{queue}/{name}", "not an id of a message: rename it")


def _names_in_queue(
    spool: Spool, queue: QueueName, report: Callable[[str, str], None]
) -> list[str]:
    """Return the names in a queue's folder, and none if it is gone or cannot be opened or read."""
    try:
        return spool.names_in_queue(queue)
    except FileNotFoundError:
        pass
    except NotADirectoryError as error:
        report(f"{Folder.QUEUES}/{queue}", str(error.strerror))
    except OSError as error:
        if error.errno not in FAULTS_OF_ONE_QUEUE:
            raise
        report(f"{Folder.QUEUES}/{queue}", str(error.strerror))
    return []


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
