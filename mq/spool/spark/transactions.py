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

A job is a query, an application (`txnAppId`), or a write of its own, whose name begins with a dot.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from mq.config import SECOND_NS
from mq.disk.child_processes import done_beside, processors
from mq.disk.files import HIDDEN
from mq.errors import ClaimError, MQError, StoreUnavailable
from mq.lifecycle import Folder
from mq.spool.message.held import Lost
from mq.spool.removed_folders import leave_to_reaper
from mq.spool.rolling import by_stamp
from mq.spool.sets import hold_set, remove_empty_set
from mq.spool.spark.jobs import (
    below,
    is_committed,
    job_held,
    last_committed,
    numbers_below,
    remove_batch,
    remove_job,
    unlink,
    winners_if_last,
    winners_of,
)
from mq.spool.spark.settle import bring, set_aside
from mq.spool.spark.staging import (
    GIVEN_UP,
    STAGE,
    STAGE_KEEP_SECONDS,
    STAGE_LOCK_SECONDS,
    TXN,
)
from mq.spool.spool import Spool

ROLLED_BESIDE_FROM = 1000
"""How many messages a set must have for other processes to help. For fewer it is not worth starting
one."""

_POLL_SECONDS = 0.01

Report = Callable[[str, OSError | MQError], None]


def commit(spool: Spool, job: str, batch: int, winners: list[str]) -> int:
    """Make the winners count, and bring their messages to their queues. Durable on return.

    If this batch or a later one is committed already, nothing is added, and what that one still has
    to bring is brought. Returns the greatest batch that counts then. A crash before the link leaves
    sets that never count; a crash after it leaves sets that a sweep rolls forward. Raises
    ClaimError if a winner is gone: then none of them counts. Raises StoreUnavailable and OSError,
    after which the batch may count; a second call finds out.
    """
    with job_held(spool, job, STAGE_LOCK_SECONDS) as is_held:
        if not is_held:
            raise StoreUnavailable(f"job {job} is held by another process; try again")
        last = last_committed(spool, job)
        if last is None or last < batch:
            if last is not None and numbers_below(spool, f"{STAGE}/{job}").count(last):
                _finish_whole(spool, job, last)
            _link(spool, job, batch, winners)
            last = batch
    spool.files.sync_file_system(spool.fd(Folder.SPARK))
    _roll_side_by_side(spool, job, last)
    _finish_whole(spool, job, last)
    spool.files.sync_file_system(spool.fd(Folder.SPARK))
    forget_before(spool, job, last)
    return last


def _link(spool: Spool, job: str, batch: int, winners: list[str]) -> None:
    """Link the list of winners. The caller holds the job's lock. This is not durable by itself."""
    files, spark, path = spool.files, spool.fd(Folder.SPARK), f"{TXN}/{job}/{batch}"
    _require_staged(spool, job, batch, winners)
    fd = files.open_unnamed(spark, spool.file_mode)
    try:
        files.write(fd, "".join(f"{name}\n" for name in winners).encode())
        files.sync(fd)
        spool.link(fd, Folder.SPARK, path)
    except FileExistsError:
        # A network file system says that the file exists also if it made the link itself and the
        # answer was lost.
        if winners_of(spool, job, batch) != winners:
            raise
    finally:
        files.close(fd)
    try:
        _require_staged(spool, job, batch, winners)
    except ClaimError:
        # A process that took no lock linked it. The batches before are not rolled forward yet: that
        # takes the lock.
        unlink(spool, path)
        raise


def _require_staged(spool: Spool, job: str, batch: int, winners: list[str]) -> None:
    for name in winners:
        path = f"{STAGE}/{job}/{batch}/{name}"
        status = spool.status(Folder.SPARK, path)
        if status is None or not stat.S_ISDIR(status.st_mode):
            raise ClaimError(
                f"{spool.root}/{Folder.SPARK}/{path} is not there any more: it was given up, as a "
                "sweep does with what waits for a day by the clock of its server, or taken away. "
                f"Nothing of batch {batch} was written; write it again"
            )


def finish(spool: Spool, job: str, batch: int, patience_seconds: float) -> int | None:
    """Roll a committed batch forward from where that stopped, and give its losers up.

    Returns how many messages it brought to their places, or None if another process still holds the
    job after that time. Raises ClaimError if it cannot be told which attempts won, and OSError if a
    message could not be brought; all others were brought then, and the losers stay until the next
    call.
    """
    delivered, failed, is_held = 0, None, False
    for name in winners_if_last(spool, job, batch):
        try:
            rolled = _roll(spool, job, batch, name, patience_seconds)
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
    give_up_batch(spool, job, batch)
    if job.startswith(HIDDEN):
        # This batch cannot be asked for again.
        unlink(spool, f"{TXN}/{job}/{batch}")
        remove_job(spool, job)
    return delivered


def _finish_whole(spool: Spool, job: str, batch: int) -> None:
    if finish(spool, job, batch, STAGE_LOCK_SECONDS) is None:
        raise StoreUnavailable(f"batch {batch} of {job} is held by another process; try again")


def _roll_side_by_side(spool: Spool, job: str, batch: int) -> None:
    """Roll large sets of a committed batch forward in several processes. `finish` does what these
    leave."""
    large = [
        name
        for name in winners_if_last(spool, job, batch)
        if len(below(spool, f"{STAGE}/{job}/{batch}/{name}")) >= ROLLED_BESIDE_FROM
    ]
    processes = min(processors(), len(large))

    def roll_share(share: int) -> None:
        for name in large[share::processes]:
            _roll(spool, job, batch, name, STAGE_LOCK_SECONDS)

    if processes > 1:
        with done_beside([partial(roll_share, share) for share in range(1, processes)]):
            roll_share(0)


def _roll(spool: Spool, job: str, batch: int, attempt: str, patience_seconds: float) -> int | None:
    """Roll one set forward. Returns how many messages were brought, or None if the set is still
    held after that time."""
    path = f"{STAGE}/{job}/{batch}/{attempt}"
    deadline = time.monotonic() + patience_seconds
    while (lock := hold_set(spool, Folder.SPARK, path)) is Lost.BUSY:
        if time.monotonic() >= deadline:
            return None
        time.sleep(_POLL_SECONDS)
    if isinstance(lock, Lost):
        # The set was rolled forward before: it existed when the batch was linked.
        return 0
    try:
        brought = bring(spool, path, by_stamp(time.time_ns()), lambda _: f"{TXN}/{job}/{batch}")
        for member in brought.kept_out:
            set_aside(spool, f"{path}/{member}", "its queue has another message of that id")
        remove_empty_set(spool, Folder.SPARK, path)
        return brought.placed
    finally:
        spool.files.close(lock)


def give_up_batch(spool: Spool, job: str, batch: int) -> None:
    """Hand to the reaper what a batch has staged and what cannot win any more."""
    path = f"{STAGE}/{job}/{batch}"
    for name in below(spool, path):
        leave_to_reaper(spool, Folder.SPARK, f"{path}/{name}", GIVEN_UP)
    remove_batch(spool, job, batch)


def forget_before(spool: Spool, job: str, batch: int) -> None:
    """Forget the batches before this one: a batch is asked for again only until a later one is
    committed."""
    for number in numbers_below(spool, f"{STAGE}/{job}"):
        if number < batch:
            give_up_batch(spool, job, number)
    for number in numbers_below(spool, f"{TXN}/{job}"):
        if number < batch:
            unlink(spool, f"{TXN}/{job}/{number}")


def sweep_transactions(spool: Spool, now_ns: int, report: Report | None = None) -> int:
    """Finish committed batches, and give up what was staged long ago and never committed.

    Returns how many messages were delivered. Any server may call it, again and again. An error in
    one batch does not keep the others from being swept: it is reported, with the batch's path from
    the root.
    """
    delivered = 0
    with _reported(report, STAGE):
        for job in below(spool, STAGE):
            with _reported(report, f"{STAGE}/{job}"):
                delivered += _sweep_job(spool, job, now_ns, report)
    return delivered


def _sweep_job(spool: Spool, job: str, now_ns: int, report: Report | None) -> int:
    batches = [
        batch
        for batch in sorted(numbers_below(spool, f"{STAGE}/{job}"))
        if is_committed(spool, job, batch) or _is_old(spool, f"{STAGE}/{job}/{batch}", now_ns)
    ]
    if not batches:
        return 0
    delivered = 0
    with job_held(spool, job, 0) as is_held:
        for batch in batches if is_held else ():
            with _reported(report, f"{STAGE}/{job}/{batch}"):
                delivered += _sweep_batch(spool, job, batch)
        if is_held:
            remove_job(spool, job)
    return delivered


def _sweep_batch(spool: Spool, job: str, batch: int) -> int:
    if is_committed(spool, job, batch):
        return finish(spool, job, batch, 0) or 0
    path = f"{STAGE}/{job}/{batch}"
    for name in below(spool, path):
        lock = hold_set(spool, Folder.SPARK, f"{path}/{name}")
        if lock is Lost.BUSY:
            # Its task is at work.
            continue
        leave_to_reaper(spool, Folder.SPARK, f"{path}/{name}", GIVEN_UP)
        if not isinstance(lock, Lost):
            spool.files.close(lock)
    remove_batch(spool, job, batch)
    return 0


@contextmanager
def _reported(report: Report | None, path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, MQError) as error:
        if report is None:
            raise
        report(f"{Folder.SPARK}/{path}", error)


def _is_old(spool: Spool, path: str, now_ns: int) -> bool:
    """Return whether no attempt of a batch has begun or ended for a long time: each one changes the
    batch's folder."""
    status = spool.status(Folder.SPARK, path)
    return status is not None and status.st_mtime_ns < now_ns - STAGE_KEEP_SECONDS * SECOND_NS
