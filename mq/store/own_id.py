"""Publish under the producer's own id: stored once, however often and wherever it is sent.

Whoever publishes an id first takes its lock, one byte of the root's `format` file, and keeps it
until the message is delivered. So no two servers decide about one id at the same time, and what a
look finds, or does not find, is what there is: another publisher of it has come to an end or died.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator

from mq.barrier import Unsynced
from mq.errors import IdTaken
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name
from mq.operation import Operation
from mq.spool.find import find
from mq.spool.folders import Spool
from mq.spool.libc import birth_ns
from mq.spool.message import SEAL_ATTRIBUTE, Held, Lost, Seal, fails_its_seal, measure
from mq.spool.root import FORMAT_FILE
from mq.spool.sets import hold_set
from mq.store.publish import Draft, Published, publish
from mq.store.workspace import Retry, Workspace

_NO_MESSAGE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO}

_OUTLIVES_ITS_QUEUE = (f"{Folder.SPARK}/", f"{Folder.REMOVE}/")

_LOCK_BYTES = 7
"""So many bytes of a hash number the bytes that are locked: none lies beyond what off_t counts."""


def publish_own(work: Workspace, queue: QueueName, draft: Draft) -> Operation[Published | Retry]:
    """Put a message into its queue unless it was published before, under that id.

    On return it is as durable as any, also if another process published it. Retry.WAIT if somebody
    is just publishing that id. Raises IdTaken if the one that is there has another body, and what
    `publish` raises.
    """
    assert draft.message_id is not None
    work.hold_queue(queue)
    lock = lock_ids(work.spool, queue, [draft.message_id])
    if lock is None:
        return Retry.WAIT
    try:
        known = yield from _adopt(work, queue, draft)
        if known is not None:
            return known
        published = yield from publish(work, queue, draft)
        name = file_name(queue, draft.message_id)
        if work.spool.exists(Folder.NEW, name) and _has_twin(work, queue, draft.message_id):
            # It was put there, by a person's mv for example, after the look: ours goes.
            work.spool.move_aside(Folder.NEW, name, Folder.REMOVE, name)
            return (yield from _adopt(work, queue, draft)) or published
        return published
    finally:
        work.files.close(lock)


def lock_ids(spool: Spool, queue: QueueName, ids: Iterable[MessageId]) -> int | None:
    """Lock ids against every other publisher; returns the descriptor that holds the locks until it
    is closed. None if somebody else holds one of them: none is held then."""
    fd = spool.files.open_to_lock(f"{spool.root}/{FORMAT_FILE}")
    # In order, so that of two who want the same ones the first to lock gets all of them.
    offsets = sorted({_offset(queue, message_id) for message_id in ids})
    are_locked = False
    try:
        are_locked = all(spool.files.lock_byte(fd, offset) for offset in offsets)
    finally:
        if not are_locked:
            spool.files.close(fd)
    return fd if are_locked else None


def open_twin(work: Workspace, queue: QueueName, draft: Draft) -> int | Retry | None:
    """Open the message of the draft's id that is there already, if its body is the same.

    None if there is none; a damaged one in `new`, which nobody would be given, is set aside and
    counts for none. Retry.WAIT if its publisher is still at work. Raises IdTaken.
    """
    assert draft.message_id is not None
    spool = work.spool
    for path in _find(work, queue, draft.message_id):
        fd = _open(spool, path)
        if fd is None:
            continue
        try:
            is_twin = _is_twin(spool, path, fd, draft)
        except BaseException:
            spool.files.close(fd)
            raise
        if is_twin is True:
            return fd
        spool.files.close(fd)
        if isinstance(is_twin, Retry):
            return is_twin
    return None


def _adopt(work: Workspace, queue: QueueName, draft: Draft) -> Operation[Published | Retry | None]:
    """Answer for the message that is there already, if there is one. It may be a crash's leftover,
    whose data nobody has synced: it is durable on return."""
    twin = open_twin(work, queue, draft)
    if twin is None or isinstance(twin, Retry):
        return twin
    assert draft.message_id is not None
    try:
        yield Unsynced((twin,), (Folder.NEW,))
    finally:
        work.files.close(twin)
    if work.spool.exists(Folder.NEW, file_name(queue, draft.message_id)):
        work.request_sweep()
    return Published(draft.message_id, is_duplicate=True)


def _has_twin(work: Workspace, queue: QueueName, message_id: MessageId) -> bool:
    ours = f"{Folder.NEW}/{file_name(queue, message_id)}"
    return any(path != ours for path in _find(work, queue, message_id))


def _find(work: Workspace, queue: QueueName, message_id: MessageId) -> Iterator[str]:
    for path in find(work.spool, work.done, queue, message_id):
        if not _is_of_an_older_queue(work.spool, queue, path):
            yield path


def _is_of_an_older_queue(spool: Spool, queue: QueueName, path: str) -> bool:
    """Whether it was published before the queue was made: what Spark has taken is not deleted with
    its queue, and a queue that is made again knows no ids of the old one."""
    if not path.startswith(_OUTLIVES_ITS_QUEUE) or path.count("/") == 1:
        return False
    made_ns = birth_ns(spool.path(Folder.QUEUES, queue))
    if made_ns is None:
        return False
    try:
        whole = f"{spool.root}/{path}"
        seal = Seal.unpack(spool.files.attribute(whole, SEAL_ATTRIBUTE))
        published_ns = os.stat(whole).st_mtime_ns if seal is None else seal.published_ns
    except OSError as error:
        if error.errno in _NO_MESSAGE:
            return False
        raise
    return published_ns < made_ns


def _open(spool: Spool, path: str) -> int | None:
    """None if it is gone from there, or is no file."""
    try:
        fd = spool.files.open_message(spool.fd(Folder.NEW), f"../{path}")
    except OSError as error:
        if error.errno in _NO_MESSAGE:
            return None
        raise
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) and status.st_nlink:
        return fd
    spool.files.close(fd)
    return None


def _is_twin(spool: Spool, path: str, fd: int, draft: Draft) -> bool | Retry:
    folder, _, name = path.partition("/")
    if folder == Folder.NEW and not _is_left_over(spool, name, fd):
        return Retry.WAIT
    with_seal = Held(spool.files, name, fd, os.fstat(fd))
    if folder == Folder.NEW and fails_its_seal(with_seal, spool.files):
        spool.move_aside(Folder.NEW, name, Folder.CORRUPT, name.rpartition("/")[2])
        return False
    seal, length = with_seal.seal, with_seal.status.st_size
    if seal is not None:
        found = seal.length, seal.crc32
    else:
        found = measure(spool.files, fd) if length == draft.length else (length, 0)
    if found == (draft.length, draft.crc32):
        return True
    raise IdTaken(
        f"message {draft.message_id} was published with another body ({found[0]} bytes, this one "
        f"has {draft.length}); send this one under an id of its own"
    )


def _is_left_over(spool: Spool, name: str, fd: int) -> bool:
    """Whether the publisher of a message in `new` has died: its lock is free, or that of its batch.
    The lock of a message stays with `fd`, so that no sweep comes in between."""
    batch, slash, _ = name.partition("/")
    if not slash:
        return spool.files.lock(fd)
    held = hold_set(spool, Folder.NEW, batch)
    if isinstance(held, Lost):
        return held is Lost.GONE
    spool.files.close(held)
    return True


def _offset(queue: QueueName, message_id: MessageId) -> int:
    digest = hashlib.blake2b(file_name(queue, message_id).encode(), digest_size=_LOCK_BYTES)
    return int.from_bytes(digest.digest())
