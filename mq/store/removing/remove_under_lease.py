"""Remove under a lease: only if it is still the message's current one."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, count

from mq.commit.operation import Operation
from mq.disk.calls import CLOSE, CODE, Chain, Outcome, run
from mq.disk.file_work import FileCalls, FileWork, do_together
from mq.disk.status import INODE, MODE, OWNER
from mq.errors import LeaseMismatch
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name
from mq.spool.message.held import Held, Lost, held_by, holding
from mq.spool.message.opening import move_held, open_held
from mq.spool.message.seal import lease_in
from mq.store.holding import work_once_unlocked
from mq.store.patience import Patience, with_message
from mq.store.removing.remove import (
    ABSENT,
    has_one_name,
    places,
    remove_other_names,
    unsynced_absence,
    unsynced_removal,
)
from mq.store.shared_state import Workspace, no_message, not_there

_DELAY, _REMOVE = Folder.DELAY, Folder.REMOVE


def remove_leased(
    work: Workspace, queue: QueueName, message_id: MessageId, leases: frozenset[int]
) -> Operation[None]:
    """Remove a message if its current lease is one of `leases`. It is compared and moved under its
    lock, for which this waits BUSY_WAIT_SECONDS. Raises LeaseMismatch and what `remove` raises."""
    patience: Patience | None = None
    move = partial(move_leased, work, (queue, message_id, leases))
    try:
        while (source := (yield from work_once_unlocked(queue, move))) is None:
            patience = patience or with_message(message_id)
            yield patience.pause()
    except ABSENT:
        yield unsynced_absence(queue)
        raise
    yield unsynced_removal(work, source, queue)
    work.counts.of(queue).removed += source is not Folder.REMOVE


UnderLease = tuple[QueueName, MessageId, frozenset[int]]
"""A message that is to be removed if its current lease is one of these."""

Removed = UnderLease | None
"""The message that is removed in the step in which others are published, if any."""


def move_leased(work: Workspace, asked: UnderLease) -> FileWork[Folder | None]:
    """Move a message to `remove`, under its lease. Returns the folder that it was moved out of, or
    `remove` if it was there already, or None if another process holds its lock.

    Its queue is held from before the look at the message until it has moved: with its queue a
    deletion would end its id too, and what has the id after that may be another message, whose
    receiver relies on it. Raises QueueNotFound, QueueLocked, MessageNotFound, LeaseMismatch,
    OSError.
    """
    work.hold_queue(asked[0])
    calls = holding(work.spool.fd(_DELAY), file_name(*asked[:2]))
    opened = yield FileCalls(work.files, calls)
    return (yield from _move_opened(work, asked, opened))


def move_together(work: Workspace, asked: Sequence[UnderLease]) -> list[Folder | Exception | None]:
    """Move several messages of queues that are held, with the file calls of all in one go. Returns
    for each what `move_leased` returns or raises."""
    files, delay_fd = work.files, work.spool.fd(_DELAY)
    names = [file_name(queue, message_id) for queue, message_id, _ in asked]
    opened = run(files, [holding(delay_fd, name) for name in names])
    if not all(map(partial(_is_usual, work), asked, opened)):
        return do_together([*map(partial(_move_opened, work), asked, opened)])
    fds = [results[0] for results, _ in opened]
    try:
        moved = run(files, [*map(partial(_calls, work), names, fds)])
    except BaseException:
        for fd in fds:
            files.close(fd)
        raise
    if has_one_name(work) and not any(map(CODE, moved)):
        return [_DELAY] * len(names)
    return do_together([*map(partial(_end_move, work), asked, opened, moved)])


def _is_usual(work: Workspace, asked: UnderLease, opened: Outcome) -> bool:
    """Return whether what is in `delay` is a message with a seal and one of the leases.
    `_move_unusual`, which is for all others, does the same to it in more time. A test compares
    them."""
    results, code = opened
    if code:
        return False
    _, _, status, named, seal = results
    return (
        lease_in(seal) in asked[2]
        and named[INODE] == status[INODE]
        and stat.S_ISREG(status[MODE])
        and status[OWNER] in work.files.owners
    )


def _move_opened(work: Workspace, asked: UnderLease, opened: Outcome) -> FileWork[Folder | None]:
    if not _is_usual(work, asked, opened):
        found = held_by(work.files, file_name(*asked[:2]), opened)
        return (yield from _move_unusual(work, asked, found))
    fd = opened[0][0]
    try:
        moved = yield FileCalls(work.files, _calls(work, file_name(*asked[:2]), fd))
    except BaseException:
        work.files.close(fd)
        raise
    return (yield from _end_move(work, asked, opened, moved))


def _calls(work: Workspace, name: str, fd: int) -> Chain:
    """Return the calls that move a usual message, and close it."""
    spool = work.spool
    return spool.rename_call(_DELAY, spool.fd(_DELAY), name, _REMOVE, name), (CLOSE, fd)


def _end_move(
    work: Workspace, asked: UnderLease, opened: Outcome, moved: Outcome
) -> FileWork[Folder | None]:
    """End a move after `_calls` were made, of which only the rename decides."""
    (results, code), (queue, message_id, _) = moved, asked
    (fd, _, status, *_), _ = opened
    inode = status[INODE]
    try:
        name = file_name(queue, message_id)
        is_moved = bool(results) or _move_beside(work, (_DELAY, name), inode, name, code)
    finally:
        if not results:
            work.files.close(fd)
    if not is_moved:
        return (yield from _move_unusual(work, asked, Lost.GONE))
    remove_other_names(work, queue, message_id, inode)
    return _DELAY


def _move_unusual(
    work: Workspace, asked: UnderLease, found: Held | Lost | None
) -> FileWork[Folder | None]:
    """Do what `move_leased` does, wherever the message is. `found` is what is in `delay`, where it
    is looked for first."""
    queue, message_id, leases = asked
    target, other_lease = file_name(queue, message_id), False
    for source, name in chain(places(queue, message_id), _removed(work, target)):
        held = found or (yield from open_held(work.spool, source, name))
        found = None
        if held is Lost.BUSY:
            return None
        if isinstance(held, Lost):
            continue
        with held:
            if held.lease not in leases:
                other_lease = True
                if source is _REMOVE:
                    continue
                break
            if source is _REMOVE:
                return source
            if (yield from _move_held(work, source, held, target)):
                work.ready.discard(queue, message_id)
                remove_other_names(work, queue, message_id, held.status.st_ino)
                return source
    if other_lease:
        raise LeaseMismatch(
            f"message {message_id} of queue {queue} does not have that lease: the lease ran "
            "out and another receiver has the message, or it was released; do not remove it"
        )
    raise not_there(work, no_message(queue, message_id))


def _removed(work: Workspace, target: str) -> Iterator[tuple[Folder, str]]:
    """Yield where removed messages of that name may be: one that found the name taken, as after a
    move from another queue, has a number behind it."""
    for number in count(1):
        name = target if number == 1 else f"{target}~{number}"
        yield _REMOVE, name
        if not work.spool.exists(_REMOVE, name):
            return


def _move_held(work: Workspace, source: Folder, held: Held, target: str) -> FileWork[bool]:
    """Move a held message. Returns False if it is gone from there."""
    try:
        return (yield from move_held(work.spool, source, held, _REMOVE, target))
    except OSError as error:
        code, inode = error.errno or errno.EIO, held.status.st_ino
        return _move_beside(work, (source, held.name), inode, target, code)


def _move_beside(
    work: Workspace, place: tuple[Folder, str], inode: int, target: str, code: int
) -> bool:
    """Go on after a move of the file `inode` that failed with `code`: if `remove` has another file
    of that name, move the message there under a name of its own. Returns False if it is gone."""
    if code == errno.EEXIST:
        # It may be the other file: removed without the lock. What has its name now keeps it.
        is_there = work.spool.inode(*place) == inode
        return is_there and work.spool.move_aside(*place, _REMOVE, target) is not None
    if code != errno.ENOENT:
        raise OSError(code, os.strerror(code), target)
    return False
