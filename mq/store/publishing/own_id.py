"""Publish under the producer's own id: a message is stored once, however often and wherever it is
sent.

The first process to publish an id takes its lock, one byte of the root's `format` file, and keeps
it until the message is delivered. So no two servers decide about one id at the same time, and what
a look finds, or does not find, is the whole truth: every other publisher of it has finished or
died.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence

from mq.commit.barrier import Unsynced
from mq.commit.operation import InWorker, Operation
from mq.errors import IdTaken, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, dead_letter_queue, file_name
from mq.spool.folders import Spool
from mq.spool.locks import lock_names
from mq.spool.message.held import (
    Held,
    Lost,
    Sum,
    fails_its_seal,
    may_be_message,
    seal_at,
    seal_of,
)
from mq.spool.queue.finder import Finder, queue_of_path
from mq.spool.queue.queue_birth import queue_made_ns
from mq.spool.sets import hold_set
from mq.spool.spark.claims import ARCHIVE
from mq.spool.sweep import Sweeper
from mq.store.context import Workspace
from mq.store.holding import hold
from mq.store.patience import with_own_id
from mq.store.publishing.publish import (
    Draft,
    Published,
    check_publish,
    publish,
    published_before,
)

Ids = Sequence[MessageId | None]
"""The ids of messages that are published; None for a new one."""

_NO_MESSAGE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO}

_OUTLIVES_ITS_QUEUE = (f"{Folder.SPARK}/", f"{Folder.REMOVE}/")
_IS_OVER = (f"{Folder.REMOVE}/", f"{Folder.SPARK}/{ARCHIVE}/")
_ON_THE_WAY = (Folder.NEW, Folder.QUEUES, Folder.DELAY)


def publish_own(work: Workspace, queue: QueueName, draft: Draft) -> Operation[Published]:
    """Put a message into its queue unless it was published before under that id.

    On return it is as durable as any other, even if another process published it. Waits
    OWN_ID_WAIT_SECONDS for another publisher of that id. Raises IdTaken if the existing message has
    another body or other properties, and what `publish` raises.
    """
    patience = with_own_id(draft.message_id)
    assert draft.message_id is not None
    while (published := (yield from _publish(work, queue, draft))) is None:
        if is_on_its_way(work, queue, draft.message_id):
            yield InWorker(deliver_leftover, work, queue, draft.message_id)
        yield patience.pause()
    return published


def _publish(work: Workspace, queue: QueueName, draft: Draft) -> Operation[Published | None]:
    """Publish once. Returns None if another process is just publishing that id."""
    assert draft.message_id is not None
    yield from hold(work, queue)
    lock = lock_ids(work.spool, queue, [draft.message_id])
    if lock is None:
        return None
    try:
        known = yield from _adopt(work, queue, draft)
        if known is not None:
            return known if isinstance(known, Published) else None
        published = yield from publish(work, queue, draft)
        name = file_name(queue, draft.message_id)
        if work.spool.exists(Folder.NEW, name) and _has_twin(work, queue, draft.message_id):
            # It was put there after the look, by a person's mv for example. The new file goes.
            work.spool.move_aside(Folder.NEW, name, Folder.REMOVE, name)
            known = yield from _adopt(work, queue, draft)
            if isinstance(known, Lost):
                return None
            return known or published
        return published
    finally:
        work.files.close(lock)


def check_publish_under(
    work: Workspace, queue: QueueName, ids: Ids, length: int = 0
) -> Operation[None]:
    """Do what `check_publish` does for messages under these ids, None for a new one. Those whose
    ids the queue knows need no room in it: a producer sends them again because no answer came.
    Nothing is locked, so the publish itself looks again."""
    try:
        yield from check_publish(work, queue, len(ids), length)
    except StoreUnavailable:
        own = [each for each in ids if each is not None]
        if not own:
            raise
        missing: set[MessageId] = yield InWorker(finder_for(work, queue).missing, own)
        yield from check_publish(work, queue, len(ids) - len(own) + len(missing), length)


def is_on_its_way(work: Workspace, queue: QueueName, message_id: MessageId) -> bool:
    return work.spool.exists(Folder.NEW, file_name(queue, message_id))


def deliver_leftover(work: Workspace, queue: QueueName, message_id: MessageId) -> None:
    """Deliver what a dead process has left in `new` under that id, as a sweep does: it may be in
    memory alone, and a sweep writes it again. Blocking."""
    Sweeper(work.spool, work.report).deliver(file_name(queue, message_id))


def lock_ids(spool: Spool, queue: QueueName, ids: Iterable[MessageId]) -> int | None:
    """Lock ids against every other publisher, as `lock_names` does."""
    return lock_names(spool, (file_name(queue, each) for each in ids))


def finder_for(work: Workspace, queue: QueueName) -> Finder:
    """Return a finder. The caller holds the locks of the ids that it will look for."""
    places = (dead_letter_queue(queue), work.settings.of(queue).dead_letters)
    return Finder(work.spool, work.done, queue, filter(None, places))


def open_twin(work: Workspace, finder: Finder, queue: QueueName, draft: Draft) -> int | Lost | None:
    """Open the existing message with the draft's id, if body and properties are the same.

    Returns None if there is none. A damaged member of a batch in `new`, which no receiver would
    get, is set aside and does not count. Returns Lost.BUSY if the message is not delivered yet.
    Raises IdTaken.
    """
    assert draft.message_id is not None
    spool = work.spool
    coming = f"{Folder.NEW}/{file_name(queue, draft.message_id)}"
    is_coming = False
    for path in _find(work, finder, queue, draft.message_id):
        fd = _open(spool, path)
        if fd is None:
            _make_room(work, path, file_name(queue, draft.message_id))
            continue
        if path == coming:
            is_coming = True
            spool.files.close(fd)
            continue
        try:
            is_twin = _is_twin(spool, path, fd, draft)
        except BaseException:
            spool.files.close(fd)
            raise
        if is_twin is True:
            return fd
        spool.files.close(fd)
        if isinstance(is_twin, Lost):
            return is_twin
    return Lost.BUSY if is_coming else None


def _adopt(work: Workspace, queue: QueueName, draft: Draft) -> Operation[Published | Lost | None]:
    """Answer for the existing message, if there is one. A crash may have left it with unsynced
    data, so it is made durable."""
    twin = open_twin(work, finder_for(work, queue), queue, draft)
    if twin is None or isinstance(twin, Lost):
        return twin
    assert draft.message_id is not None
    try:
        yield Unsynced((twin,), (), implied=(Folder.NEW,))
        return published_before(work, queue, draft.message_id, twin)
    finally:
        work.files.close(twin)


def _has_twin(work: Workspace, queue: QueueName, message_id: MessageId) -> bool:
    """Return whether another file of MQ has the id."""
    ours = f"{Folder.NEW}/{file_name(queue, message_id)}"
    for path in _find(work, finder_for(work, queue), queue, message_id):
        fd = None if path == ours else _open(work.spool, path)
        if fd is not None:
            work.files.close(fd)
            return True
    return False


def has_another(work: Workspace, queue: QueueName, message_id: MessageId, inode: int) -> bool:
    """Return whether the queue has a message with that id which is not the file `inode`: on its
    way, ready, hidden, dead, or claimed by Spark. One that was removed does not count. The caller
    holds the lock of the id."""
    for path in _find(work, finder_for(work, queue), queue, message_id):
        folder, _, name = path.partition("/")
        if path.startswith(_IS_OVER):
            continue
        found = work.spool.status(Folder(folder), name)
        if found is not None and found.st_ino != inode:
            return True
    return False


def _find(
    work: Workspace, finder: Finder, queue: QueueName, message_id: MessageId
) -> Iterator[str]:
    for path in finder.find(message_id):
        if not _is_of_an_older_queue(work.spool, queue, path):
            yield path


def _is_of_an_older_queue(spool: Spool, queue: QueueName, path: str) -> bool:
    """Return whether a message was published before the queue was made, which knows no ids of an
    older one. What Spark has taken is not deleted with its queue, nor are its dead letters."""
    outlives = path.startswith(_OUTLIVES_ITS_QUEUE) and path.count("/") > 1
    if not outlives and queue_of_path(path) == queue:
        return False
    if (made_ns := queue_made_ns(spool, queue)) is None:
        return False
    try:
        folder, _, name = path.partition("/")
        seal = seal_at(spool, Folder(folder), name)
        if seal is not None:
            return seal.published_ns < made_ns
        status = spool.status(Folder(folder), name)
    except OSError as error:
        if error.errno in _NO_MESSAGE:
            return False
        raise
    return status is not None and status.st_mtime_ns < made_ns


def _open(spool: Spool, path: str) -> int | None:
    """Open a message. Returns None if it is gone from there, or is not a message: not a file, or
    another user's."""
    folder, _, name = path.partition("/")
    try:
        at = spool.at(Folder(folder), name)
        fd = spool.files.open_message(at.fd, at.name)
    except OSError as error:
        if error.errno in _NO_MESSAGE:
            return None
        raise
    is_message = False
    try:
        status = os.fstat(fd)
        is_message = may_be_message(spool.files, status) and status.st_nlink > 0
    finally:
        if not is_message:
            spool.files.close(fd)
    return fd if is_message else None


def _make_room(work: Workspace, path: str, flat: str) -> None:
    """Move what another user has put in the way of the message to `corrupt`: it would keep the
    message from its queue for ever."""
    folder, _, name = path.partition("/")
    if folder not in _ON_THE_WAY or name.replace("/", ":") != flat:
        return
    found = work.spool.status(Folder(folder), name)
    if found is not None and found.st_uid not in work.files.owners:
        work.report(path, Lost.FOREIGN.value)
        work.spool.move_aside(Folder(folder), name, Folder.CORRUPT, flat)


def _is_twin(spool: Spool, path: str, fd: int, draft: Draft) -> bool | Lost:
    folder, _, name = path.partition("/")
    if folder == Folder.NEW and not _is_left_over(spool, name):
        return Lost.BUSY
    there = Held(spool.files, name, fd, os.fstat(fd), seal_of(spool.files, fd))
    if folder == Folder.NEW and fails_its_seal(there, spool.files):
        spool.move_aside(Folder.NEW, name, Folder.CORRUPT, name.rpartition("/")[2])
        return False
    # A file without a seal is read only if its length says that it may be the same.
    is_read = there.seal is not None or there.length == draft.length
    found, wanted = there.sum() if is_read else Sum(there.length, 0), draft.sum()
    if found == wanted:
        return True
    what = "other properties"
    if found[:2] != wanted[:2]:
        what = "another body of the same length"
        if found.length != draft.length:
            what = f"another body ({found.length} bytes, this one has {draft.length})"
    raise IdTaken(
        f"message {draft.message_id} was published with {what}; send this one under another id"
    )


def _is_left_over(spool: Spool, name: str) -> bool:
    """Return whether the publisher of a batch in `new`, which has a member of that name, has died:
    its lock is free."""
    held = hold_set(spool, Folder.NEW, name.partition("/")[0])
    if isinstance(held, Lost):
        return held is Lost.GONE
    spool.files.close(held)
    return True
