"""Jobs: the batches that they have committed, the attempts that won, and the lock under which that
is decided.

    spark/txn/JOB/          its folder; only the holder of its lock adds to it
    spark/txn/JOB/BATCH     the attempts that won, a line each
    spark/stage/JOB/BATCH/  what the batch has staged
"""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mq.disk.files import HIDDEN
from mq.errors import ClaimError
from mq.lifecycle import Folder
from mq.spool.message.held import Lost
from mq.spool.removed_folders import leave_to_reaper
from mq.spool.sets import OPEN_SUFFIX, hold_set
from mq.spool.spark.marker_files import parse_number
from mq.spool.spark.staging import GIVEN_UP, STAGE, STAGE_LOCK_SECONDS, TXN
from mq.spool.spool import Spool

_MAX_TXN_BYTES = 16 * 1024 * 1024
_POLL_SECONDS = 0.01

_ATTEMPT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def last_committed(spool: Spool, job: str) -> int | None:
    """Return the greatest batch of a job that is committed, or None."""
    for batch in sorted(numbers_below(spool, f"{TXN}/{job}"), reverse=True):
        status = spool.status(Folder.SPARK, f"{TXN}/{job}/{batch}")
        if status is not None and stat.S_ISREG(status.st_mode):
            return batch
    return None


def is_committed(spool: Spool, job: str, batch: int) -> bool:
    """Return whether this batch or a later one is committed. If a later one is, this one is done
    and forgotten."""
    last = last_committed(spool, job)
    return last is not None and last >= batch


@contextmanager
def job_held(spool: Spool, job: str, patience_seconds: float) -> Iterator[bool]:
    """Hold the job's lock. Yields False if another process still has it after that time."""
    path = f"{TXN}/{job}"
    deadline = time.monotonic() + patience_seconds
    spool.make_folders(Folder.SPARK, TXN, path)
    while isinstance(lock := hold_set(spool, Folder.SPARK, path), Lost):
        if lock is Lost.FOREIGN:
            raise ClaimError(f"{spool.root}/{Folder.SPARK}/{path} is not a folder: move it away")
        if lock is Lost.GONE:
            # It is a job of one batch, and done.
            spool.make_folders(Folder.SPARK, TXN, path)
        elif time.monotonic() >= deadline:
            yield False
            return
        else:
            time.sleep(_POLL_SECONDS)
    try:
        yield True
    finally:
        spool.files.close(lock)


def winners_of(spool: Spool, job: str, batch: int) -> list[str]:
    """Return the attempts that won. Raises ClaimError if the list is damaged."""
    path = f"{TXN}/{job}/{batch}"
    try:
        fd = spool.files.open_message(spool.fd(Folder.SPARK), path)
    except FileNotFoundError:
        return []
    try:
        text = spool.files.read(fd, _MAX_TXN_BYTES).decode("ascii", "replace")
    finally:
        spool.files.close(fd)
    *names, rest = text.split("\n")
    if rest or not all(map(_is_attempt, names)):
        raise ClaimError(
            f"{spool.root}/{Folder.SPARK}/{path} is damaged, and does not tell what of "
            f"{Folder.SPARK}/{STAGE}/{job}/{batch} was committed: look at both; move what "
            "counts to its queues, then the file away"
        )
    return names


def winners_if_last(spool: Spool, job: str, batch: int) -> list[str]:
    """Return the attempts that won, or none unless the batch is the last committed one. Raises
    ClaimError if the list is damaged."""
    return winners_of(spool, job, batch) if last_committed(spool, job) == batch else []


def _is_attempt(name: str) -> bool:
    return _ATTEMPT.fullmatch(name) is not None and not name.endswith(OPEN_SUFFIX)


def numbers_below(spool: Spool, name: str) -> list[int]:
    return [number for each in below(spool, name) if (number := parse_number(each)) is not None]


def below(spool: Spool, name: str) -> list[str]:
    return spool.names_if_any(Folder.SPARK, name)


def unlink(spool: Spool, name: str) -> None:
    try:
        spool.unlink(Folder.SPARK, name)
    except FileNotFoundError:
        pass


def remove_batch(spool: Spool, job: str, batch: int) -> None:
    remove_folder(spool, f"{STAGE}/{job}/{batch}")
    remove_folder(spool, f"{STAGE}/{job}")


def give_up_attempts(spool: Spool, job: str, batch: int, attempts: list[str]) -> None:
    """Hand these attempts to the reaper, unless they have won. An attempt that cannot be decided
    now is left to the next commit of the job, or to a sweep."""
    if not spool.exists(Folder.SPARK, f"{STAGE}/{job}"):
        return
    with job_held(spool, job, STAGE_LOCK_SECONDS) as is_held:
        if not is_held:
            return
        won = winners_if_last(spool, job, batch)
        for name in attempts:
            if name not in won:
                leave_to_reaper(spool, Folder.SPARK, f"{STAGE}/{job}/{batch}/{name}", GIVEN_UP)
        remove_batch(spool, job, batch)
        remove_job(spool, job)


def remove_job(spool: Spool, job: str) -> None:
    """Remove the folder of a job of one batch, which is never asked for again. Of any other job the
    folder is kept, with the batch that was committed last."""
    if job.startswith(HIDDEN):
        remove_folder(spool, f"{TXN}/{job}")


def remove_folder(spool: Spool, name: str) -> None:
    try:
        spool.files.remove_folder(spool.fd(Folder.SPARK), name)
    except OSError:
        # It is not empty because a late attempt has begun, or another process was faster.
        pass
