"""Transactions: one file makes all that the tasks of a batch have staged count, or none of it.

    spark/txn/JOB/BATCH           the attempts that won, a line each; linked once and never changed
    spark/stage/JOB/BATCH/...     what they staged, until it is rolled forward

    stage     every attempt seals a set of its own
    commit    the list of winners is linked, durably. If one is there already, by an earlier try of
              the same batch, that one counts and not ours: so a batch that is replayed adds nothing
    roll      the winners' messages go to their queues, by renames; any server's sweep can finish it
    clean     losers go to `remove`; once a later batch is committed its forerunners' files go too

Only the greatest batch of a job is ever rolled forward: it was committed when all before it were
done. So a driver that was thought dead, and links a batch whose file went long ago, adds nothing.

A job is a query, an application (`txnAppId`), or a write of its own, whose name begins with a dot.
"""

from __future__ import annotations

import time
from functools import partial

from mq.config import STAGE_KEEP_SECONDS, STAGE_LOCK_SECONDS
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, parse_file_name, queue_path
from mq.spool.files import HIDDEN
from mq.spool.folders import Spool
from mq.spool.forks import done_beside, processors
from mq.spool.message import SEAL_ATTRIBUTE, Lost, Seal
from mq.spool.sets import (
    by_stamp,
    give_up_set,
    hold_set,
    members,
    remove_empty_set,
    roll_forward,
)
from mq.spool.staging import GIVEN_UP, STAGE, make_folders

TXN = "txn"

ROLLED_BESIDE_FROM = 1000
"""Messages of a set; for fewer it is not worth to start another process."""

_MAX_TXN_BYTES = 16 * 1024 * 1024
_POLL_SECONDS = 0.01
_NS = 1_000_000_000


def last_committed(spool: Spool, job: str) -> int | None:
    """The greatest batch of a job that counts."""
    batches = [int(name) for name in _below(spool, f"{TXN}/{job}") if name.isdigit()]
    return max(batches, default=None)


def commit(spool: Spool, job: str, batch: int, winners: list[str]) -> None:
    """Let the winners count, and bring their messages to their queues. Durable on return.

    If the batch, or a later one, is committed already, nothing is added. A crash before the link
    leaves sets that never count; after it, sets that a sweep rolls forward. Raises
    StoreUnavailable, OSError.
    """
    files, spark = spool.files, spool.fd(Folder.SPARK)
    make_folders(spool, TXN, f"{TXN}/{job}")
    fd = files.open_unnamed(spark, spool.file_mode)
    try:
        files.write(fd, "".join(f"{name}\n" for name in winners).encode())
        files.sync(fd)
        files.link(fd, spark, f"{TXN}/{job}/{batch}")
    except FileExistsError:
        # An earlier try: adopted.
        pass
    finally:
        files.close(fd)
    files.sync_file_system(spark)
    _roll_side_by_side(spool, job, batch)
    if finish(spool, job, batch, STAGE_LOCK_SECONDS) is None:
        raise StoreUnavailable(f"batch {batch} of {job} is held by somebody else; try again")
    files.sync_file_system(spark)
    forget_before(spool, job, last_committed(spool, job) or batch)


def is_committed(spool: Spool, job: str, batch: int) -> bool:
    """Or a later one is, which means that this one is done and forgotten."""
    last = last_committed(spool, job)
    return last is not None and last >= batch


def finish(spool: Spool, job: str, batch: int, patience_seconds: float) -> int | None:
    """Roll a committed batch forward, from wherever that stopped, and give its losers up.

    Returns how many messages it brought to their places; None if somebody else was still at it
    after that time.
    """
    delivered = 0
    winners = _winners(spool, job, batch) if last_committed(spool, job) == batch else []
    for name in winners:
        rolled = _roll(spool, f"{STAGE}/{job}/{batch}/{name}", patience_seconds)
        if rolled is None:
            return None
        delivered += rolled
    give_up_batch(spool, job, batch)
    if job.startswith(HIDDEN):
        # Nobody can ask for it again.
        _unlink(spool, f"{TXN}/{job}/{batch}")
        _remove_folder(spool, f"{TXN}/{job}")
    return delivered


def _roll_side_by_side(spool: Spool, job: str, batch: int) -> None:
    """Roll large sets of a committed batch forward by several processes; `finish` does what they
    leave."""
    if last_committed(spool, job) != batch:
        return
    paths = [f"{STAGE}/{job}/{batch}/{name}" for name in _winners(spool, job, batch)]
    large = [path for path in paths if len(_below(spool, path)) >= ROLLED_BESIDE_FROM]

    processes = min(processors(), len(large))

    def roll_share(share: int) -> None:
        for path in large[share::processes]:
            _roll(spool, path, STAGE_LOCK_SECONDS)

    if processes > 1:
        with done_beside([partial(roll_share, share) for share in range(1, processes)]):
            roll_share(0)


def give_up_batch(spool: Spool, job: str, batch: int) -> None:
    """Hand what a batch has staged to the reaper."""
    path = f"{STAGE}/{job}/{batch}"
    for name in _below(spool, path):
        give_up_set(spool, Folder.SPARK, f"{path}/{name}", GIVEN_UP)
    _remove_folder(spool, path)
    _remove_folder(spool, f"{STAGE}/{job}")


def forget_before(spool: Spool, job: str, batch: int) -> None:
    """A batch is asked for again only until a later one is committed."""
    for name in _below(spool, f"{STAGE}/{job}"):
        if name.isdigit() and int(name) < batch:
            give_up_batch(spool, job, int(name))
    for name in _below(spool, f"{TXN}/{job}"):
        if name.isdigit() and int(name) < batch:
            _unlink(spool, f"{TXN}/{job}/{name}")


def sweep_transactions(spool: Spool, now_ns: int) -> int:
    """Finish committed batches, give up what was staged long ago and never committed.

    Returns how many messages were delivered. For any server, again and again.
    """
    delivered = 0
    for job in _below(spool, STAGE):
        for name in _below(spool, f"{STAGE}/{job}"):
            if not name.isdigit():
                continue
            if is_committed(spool, job, int(name)):
                delivered += finish(spool, job, int(name), 0) or 0
            elif _is_old(spool, f"{STAGE}/{job}/{name}", now_ns):
                give_up_batch(spool, job, int(name))
    return delivered


def _is_old(spool: Spool, path: str, now_ns: int) -> bool:
    """Every attempt that begins or ends changes the batch's folder."""
    status = spool.status(Folder.SPARK, path)
    return status is not None and status.st_mtime_ns < now_ns - STAGE_KEEP_SECONDS * _NS


def _winners(spool: Spool, job: str, batch: int) -> list[str]:
    try:
        fd = spool.files.open_message(spool.fd(Folder.SPARK), f"{TXN}/{job}/{batch}")
    except FileNotFoundError:
        return []
    try:
        return spool.files.read(fd, _MAX_TXN_BYTES).decode().split()
    finally:
        spool.files.close(fd)


def _roll(spool: Spool, path: str, patience_seconds: float) -> int | None:
    """None if the set is still held after that time."""
    deadline = time.monotonic() + patience_seconds
    while (lock := hold_set(spool, Folder.SPARK, path)) is Lost.BUSY:
        if time.monotonic() >= deadline:
            return None
        time.sleep(_POLL_SECONDS)
    if isinstance(lock, Lost):
        return 0
    try:
        count = len(members(spool, Folder.SPARK, path))
        rolled = roll_forward(spool, Folder.SPARK, path, by_stamp(time.time_ns()))
        for member in rolled.left:
            _settle(spool, path, member)
        if rolled.left:
            remove_empty_set(spool, Folder.SPARK, path)
        return count - len(rolled.left)
    finally:
        spool.files.close(lock)


def _settle(spool: Spool, path: str, member: str) -> None:
    """A message that found no place. Its queue was deleted meanwhile, and so is the message; or the
    queue has that id: the same message is there already, another one is kept aside."""
    parsed = parse_file_name(member)
    if parsed is None:
        return
    source, name = f"{path}/{member}", file_name(*parsed)
    if not spool.exists(Folder.QUEUES, parsed[0]) or _is_there(spool, source, *parsed):
        spool.move_aside(Folder.SPARK, source, Folder.REMOVE, name)
    elif (kept := spool.move_aside(Folder.SPARK, source, Folder.CORRUPT, name)) is not None:
        # Here, because it takes long to import, and every Python that Spark starts would.
        from mq.logs import report_left  # noqa: PLC0415

        report_left(f"{Folder.CORRUPT}/{kept}", f"queue {parsed[0]} has another message of that id")


def _is_there(spool: Spool, source: str, queue: QueueName, message_id: MessageId) -> bool:
    """Whether the queue has a message of that id with the same body, by the seals."""
    ours = _seal(spool, spool.path(Folder.SPARK, source))
    theirs = _seal(spool, spool.path(Folder.QUEUES, queue_path(queue, message_id)))
    return ours is not None and theirs is not None and ours[:2] == theirs[:2]


def _seal(spool: Spool, path: str) -> Seal | None:
    try:
        return Seal.unpack(spool.files.attribute(path, SEAL_ATTRIBUTE))
    except OSError:
        return None


def _below(spool: Spool, name: str) -> list[str]:
    try:
        return spool.names_below(Folder.SPARK, name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _unlink(spool: Spool, name: str) -> None:
    try:
        spool.files.unlink(spool.fd(Folder.SPARK), name)
    except FileNotFoundError:
        pass


def _remove_folder(spool: Spool, name: str) -> None:
    try:
        spool.files.remove_folder(spool.fd(Folder.SPARK), name)
    except OSError:
        # Not empty: a late attempt has begun. Or somebody else was faster.
        pass
