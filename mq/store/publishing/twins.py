"""Find the message that has an id already, wherever it is by now, and compare it with the one that
is to be published.

The caller holds the lock of the id, one byte of the root's `format` file, so that nobody else
publishes it meanwhile.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator

from mq.disk.libc import birth_ns
from mq.errors import IdTaken
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, dead_letter_queue, file_name
from mq.spool.disk_errors import NO_MESSAGE
from mq.spool.finder import Finder, queue_of_path
from mq.spool.locks import lock_names
from mq.spool.message.held import Held, Lost, Sum, fails_its_seal, may_be_message, seal_at, seal_of
from mq.spool.message.in_use import try_locks
from mq.spool.queue.queue_birth import queue_made_ns
from mq.spool.root_format import FORMAT_FILE
from mq.spool.sets import hold_set
from mq.spool.spark.letting_go import ARCHIVE
from mq.spool.spool import Spool
from mq.store.publishing.publish import Draft
from mq.store.shared_state import Workspace, no_queue

_OUTLIVES_ITS_QUEUE = (f"{Folder.SPARK}/", f"{Folder.REMOVE}/")
_IS_OVER = (f"{Folder.REMOVE}/", f"{Folder.SPARK}/{ARCHIVE}/")
_ON_THE_WAY = (Folder.NEW, Folder.QUEUES, Folder.DELAY)


def lock_ids(spool: Spool, queue: QueueName, ids: Iterable[MessageId]) -> int | None:
    """Lock ids against every other publisher, as `lock_names` does."""
    return lock_names(spool, (file_name(queue, each) for each in ids))


def finder_for(work: Workspace, queue: QueueName) -> Finder:
    """Return a finder. The caller holds the locks of the ids that it will look for."""
    dead_letters = (dead_letter_queue(queue), work.settings.of(queue).dead_letters)
    found_in = filter(None, dead_letters)
    return Finder(work.spool, work.finished_by_spark, queue, found_in, work.batches_at_work)


def open_twin(
    work: Workspace, finder: Finder, queue: QueueName, message_id: MessageId, draft: Draft
) -> int | Lost | None:
    """Open the existing message with that id, if body and properties are those of the draft.

    Returns None if there is none. A damaged member of a batch in `new`, which no receiver would
    get, is set aside and does not count. Returns Lost.BUSY if the message is not delivered yet.
    Raises IdTaken.
    """
    spool = work.spool
    flat = file_name(queue, message_id)
    coming = f"{Folder.NEW}/{flat}"
    is_coming = False
    for path in _find(work, finder, queue, message_id):
        fd = _open(spool, path)
        if fd is None:
            _make_room(work, path, flat)
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


def publish_after_birth(work: Workspace, queue: QueueName) -> None:
    """Let all that is published from now on be younger than the queue, also if this machine's clock
    is behind the one that says when the queue was made, or was set back since. What is older than
    its queue is not found again once it is a dead letter, purged, or taken by Spark."""
    made_ns = queue_made_ns(work.spool, queue)
    if made_ns is not None:
        work.ids.start_after(made_ns)


def is_older_than(work: Workspace, queue: QueueName, published_ns: int) -> bool:
    """Return whether the queue was made after that time, and so after `publish_after_birth`."""
    made_ns = queue_made_ns(work.spool, queue)
    return made_ns is not None and published_ns < made_ns and work.ids.start_after(made_ns)


def has_twin(work: Workspace, queue: QueueName, message_id: MessageId) -> bool:
    """Return whether another file of MQ has the id."""
    ours = f"{Folder.NEW}/{file_name(queue, message_id)}"
    for path in _find(work, finder_for(work, queue), queue, message_id):
        fd = None if path == ours else _open(work.spool, path)
        if fd is not None:
            work.files.close(fd)
            return True
    return False


def has_another(
    work: Workspace, queue: QueueName, message_id: MessageId, inode: int
) -> bool | Lost:
    """Return whether the queue has a message with that id which is not the file `inode`: on its
    way, ready, hidden, dead, or claimed by Spark. One that was removed does not count, but it is
    Lost.BUSY while another process has that under its lock. The caller holds the lock of the id."""
    for path in _find(work, finder_for(work, queue), queue, message_id):
        folder, _, name = path.partition("/")
        if path.startswith(_IS_OVER):
            fd, bare, _keeper = work.spool.at(Folder(folder), name)
            if try_locks(work.files, fd, [bare]) == [errno.EWOULDBLOCK]:
                return Lost.BUSY
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
    older one. What Spark has taken is not deleted with its queue, nor are its dead letters. A copy,
    of a whole root for example, says nothing: its queue is as new as itself. Raises
    QueueNotFound."""
    outlives = path.startswith(_OUTLIVES_ITS_QUEUE) and path.count("/") > 1
    if not outlives and queue_of_path(path) == queue:
        return False
    if (made_ns := queue_made_ns(spool, queue)) is None:
        if not spool.exists(Folder.QUEUES, queue):
            raise no_queue(queue)  # It was deleted since this began.
        return False
    try:
        folder, _, name = path.partition("/")
        seal = seal_at(spool, Folder(folder), name)
        status = spool.status(Folder(folder), name)
    except OSError as error:
        if error.errno in NO_MESSAGE:
            return False
        raise
    if status is None:
        return False
    own_ns = birth_ns(f"{spool.root}/{path}")
    # A copy was made after it was written, or after its queue was.
    if own_ns is not None and own_ns > min(status.st_mtime_ns, made_ns):
        return False
    published_ns = status.st_mtime_ns if seal is None else seal.published_ns
    # The mtime of what was hidden when it was copied may be later.
    return published_ns < made_ns and not _was_copied_after(spool, published_ns)


def _was_copied_after(spool: Spool, time_ns: int) -> bool:
    """Return whether the root is a copy that was made after that time: then its file `format` was
    made after it was written."""
    path = f"{spool.root}/{FORMAT_FILE}"
    made_ns = birth_ns(path)
    return made_ns is not None and max(time_ns, os.stat(path).st_mtime_ns) < made_ns


def _open(spool: Spool, path: str) -> int | None:
    """Open a message. Returns None if it is gone from there, or is not a message: not a file, or
    another user's."""
    folder, _, name = path.partition("/")
    try:
        folder_fd, bare, _keeper = spool.at(Folder(folder), name)
        fd = spool.files.open_message(folder_fd, bare)
    except OSError as error:
        if error.errno in NO_MESSAGE:
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
