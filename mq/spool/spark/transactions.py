"""Transactions: one file makes all that the tasks of a batch have staged count, or none of it.

    spark/txn/JOB/BATCH           the attempts that won, a line each; linked once and never changed
    spark/stage/JOB/BATCH/...     what they staged, until it is rolled forward

    stage     every attempt seals a set of its own
    commit    the list of winners is linked, durably. If one is there already, by an earlier try of
              the same batch, that one counts and not ours: so a batch that is replayed adds nothing
    roll      the winners' messages go to their queues, by renames; any server's sweep can finish it
    clean     losers go to `remove`; once a later batch is committed its forerunners' files go too

The folder `spark/txn/JOB` has a lock. Its holder alone links a batch, or gives up what may still
win. Under it a batch is linked only if the one before is rolled forward whole, no later one counts,
and every winner is there. So only the greatest batch of a job can have messages left to roll: one
below it is done, or was linked without the lock, and its messages are not brought again.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from mq.config import SECOND_NS
from mq.disk.child_processes import done_beside, processors
from mq.errors import ClaimError, MQError, StoreUnavailable
from mq.lifecycle import Folder
from mq.spool.message.held import Lost
from mq.spool.rolling import by_stamp
from mq.spool.sets import hold_set, remove_empty_set
from mq.spool.spark.jobs import STAGE, STAGE_LOCK_SECONDS, Job
from mq.spool.spark.settle import bring, set_aside
from mq.spool.spool import Spool

ROLLED_BESIDE_FROM = 1000
"""How many messages a set must have for other processes to help. For fewer it is not worth starting
one."""

STAGE_KEEP_SECONDS = 86_400
"""What a job has staged is given up if nothing was staged or committed for this time."""

_POLL_SECONDS = 0.01

Report = Callable[[str, OSError | MQError], None]


def commit(job: Job, batch: int, winners: list[str]) -> int:
    """Make the winners count, and bring their messages to their queues. Durable on return.

    If this batch or a later one is committed already, nothing is added, and what that one still has
    to bring is brought. Returns the greatest batch that counts then. A crash before the link leaves
    sets that never count; a crash after it leaves sets that a sweep rolls forward. Raises
    ClaimError if a winner is gone: then none of them counts. Raises StoreUnavailable and OSError,
    after which the batch may count; a second call finds out.
    """
    with job.held(STAGE_LOCK_SECONDS) as is_held:
        if not is_held:
            raise StoreUnavailable(f"job {job.name} is held by another process; try again")
        last = job.last_committed()
        if last is None or last < batch:
            if last is not None and last in job.staged():
                _finish_whole(job, last)
            _link(job, batch, winners)
            last = batch
    _sync(job.spool)
    _roll_side_by_side(job, last)
    _finish_whole(job, last)
    _sync(job.spool)
    forget_before(job, last)
    return last


def _sync(spool: Spool) -> None:
    spool.files.sync_file_system(spool.fd(Folder.SPARK))


def _link(job: Job, batch: int, winners: list[str]) -> None:
    """Link the list of winners. The caller holds the job's lock. This is not durable by itself."""
    spool, files = job.spool, job.spool.files
    _require_staged(job, batch, winners)
    fd = files.open_unnamed(spool.fd(Folder.SPARK), spool.file_mode)
    try:
        files.write(fd, "".join(f"{name}\n" for name in winners).encode())
        files.sync(fd)
        spool.link(fd, Folder.SPARK, f"{job.txn}/{batch}")
    except FileExistsError:
        # A network file system says that the file exists also if it made the link itself and the
        # answer was lost.
        if job.winners(batch) != winners:
            raise
    finally:
        files.close(fd)
    try:
        _require_staged(job, batch, winners)
    except ClaimError:
        # A process that took no lock linked it. The batches before are not rolled forward yet: that
        # takes the lock.
        job.forget(batch)
        raise


def _require_staged(job: Job, batch: int, winners: list[str]) -> None:
    for name in winners:
        path = f"{job.stage}/{batch}/{name}"
        status = job.spool.status(Folder.SPARK, path)
        if status is None or not stat.S_ISDIR(status.st_mode):
            raise ClaimError(
                f"{job.spool.root}/{Folder.SPARK}/{path} is not there any more: it was given up, "
                "as a sweep does with what waits for a day by the clock of its server, or taken "
                f"away. Nothing of batch {batch} was written; write it again"
            )


def finish(job: Job, batch: int, patience_seconds: float) -> int | None:
    """Roll a committed batch forward from where that stopped, and give its losers up.

    Returns how many messages it brought to their places, or None if another process still holds the
    job after that time. Raises ClaimError if it cannot be told which attempts won, and OSError if a
    message could not be brought; all others were brought then, and the losers stay until the next
    call.
    """
    delivered, failed, is_held = 0, None, False
    for name in job.winners_if_last(batch):
        try:
            rolled = _roll(job, batch, name, patience_seconds)
        except OSError as error:
            failed = failed or error
            continue
        if rolled is None:
            is_held = True
            break
        delivered += rolled
    if failed is not None:
        raise failed
    if is_held:
        return None
    give_up_batch(job, batch)
    if job.is_one_write:
        job.forget(batch)
        job.remove_if_done()
    return delivered


def _finish_whole(job: Job, batch: int) -> None:
    if finish(job, batch, STAGE_LOCK_SECONDS) is None:
        raise StoreUnavailable(f"batch {batch} of {job.name} is held by another process; try again")


def _roll_side_by_side(job: Job, batch: int) -> None:
    """Roll large sets of a committed batch forward in several processes. `finish` does what these
    leave."""
    large = [
        name
        for name in job.winners_if_last(batch)
        if len(job.spool.names_if_any(Folder.SPARK, f"{job.stage}/{batch}/{name}"))
        >= ROLLED_BESIDE_FROM
    ]
    processes = min(processors(), len(large))

    def roll_share(share: int) -> None:
        for name in large[share::processes]:
            _roll(job, batch, name, STAGE_LOCK_SECONDS)

    if processes > 1:
        with done_beside([partial(roll_share, share) for share in range(1, processes)]):
            roll_share(0)


def _roll(job: Job, batch: int, attempt: str, patience_seconds: float) -> int | None:
    """Roll one set forward. Returns how many messages were brought, or None if the set is still
    held after that time."""
    spool, path = job.spool, f"{job.stage}/{batch}/{attempt}"
    deadline = time.monotonic() + patience_seconds
    while (lock := hold_set(spool, Folder.SPARK, path)) is Lost.BUSY:
        if time.monotonic() >= deadline:
            return None
        time.sleep(_POLL_SECONDS)
    if isinstance(lock, Lost):
        # The set was rolled forward before: it existed when the batch was linked.
        return 0
    try:
        brought = bring(spool, path, by_stamp(time.time_ns()), lambda _: f"{job.txn}/{batch}")
        for member in brought.kept_out:
            set_aside(spool, f"{path}/{member}", "its queue has another message of that id")
        remove_empty_set(spool, Folder.SPARK, path)
        return brought.placed
    finally:
        spool.files.close(lock)


def give_up_batch(job: Job, batch: int) -> None:
    """Hand to the reaper what a batch has staged and what cannot win any more."""
    for path in job.attempts(batch):
        job.hand_over(path)
    job.clear_stage(batch)


def forget_before(job: Job, batch: int) -> None:
    """Forget the batches before this one: a batch is asked for again only until a later one is
    committed."""
    for number in job.staged():
        if number < batch:
            give_up_batch(job, number)
    for number in job.listed():
        if number < batch:
            job.forget(number)


def sweep_transactions(spool: Spool, now_ns: int, report: Report | None = None) -> int:
    """Finish committed batches, and give up what was staged long ago and never committed.

    Returns how many messages were delivered. Any server may call it, again and again. An error in
    one batch does not keep the others from being swept: it is reported, with the batch's path from
    the root.
    """
    delivered = 0
    with _reported(report, STAGE):
        for name in spool.names_if_any(Folder.SPARK, STAGE):
            job = Job(spool, name)
            with _reported(report, job.stage):
                delivered += _sweep_job(job, now_ns, report)
    return delivered


def _sweep_job(job: Job, now_ns: int, report: Report | None) -> int:
    batches = [
        batch
        for batch in sorted(job.staged())
        if job.is_committed(batch) or _is_old(job, batch, now_ns)
    ]
    if not batches:
        return 0
    delivered = 0
    with job.held(0) as is_held:
        for batch in batches if is_held else ():
            with _reported(report, f"{job.stage}/{batch}"):
                delivered += _sweep_batch(job, batch)
        if is_held:
            job.remove_if_done()
    return delivered


def _sweep_batch(job: Job, batch: int) -> int:
    if job.is_committed(batch):
        return finish(job, batch, 0) or 0
    for path in job.attempts(batch):
        lock = hold_set(job.spool, Folder.SPARK, path)
        if lock is Lost.BUSY:
            # Its task is at work.
            continue
        job.hand_over(path)
        if not isinstance(lock, Lost):
            job.spool.files.close(lock)
    job.clear_stage(batch)
    return 0


@contextmanager
def _reported(report: Report | None, path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, MQError) as error:
        if report is None:
            raise
        report(f"{Folder.SPARK}/{path}", error)


def _is_old(job: Job, batch: int, now_ns: int) -> bool:
    """Return whether no attempt of a batch has begun or ended for a long time: each one changes the
    batch's folder."""
    status = job.spool.status(Folder.SPARK, f"{job.stage}/{batch}")
    return status is not None and status.st_mtime_ns < now_ns - STAGE_KEEP_SECONDS * SECOND_NS
