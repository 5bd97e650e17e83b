"""The file `.settings` in a queue's folder: the one file of a root that is ever replaced.

    1. new/.UUID                        whole and synced before it has a name, and locked
    2. new/.UUID -> queues/Q/.settings  one rename, which replaces
    3. the queue's folder is synced, and the change answered

A crash before 2 leaves the settings as they were, and perhaps an upload in `new`, which a sweep
discards. After it the new ones are there; a power cut before 3 leaves either. No process takes a
name that begins with a dot for a message.

A process that changes the file locks its byte of the file `format`, so that of two changes at the
same time none is lost. A person who edits it takes no lock.
"""

from __future__ import annotations

import errno
import os
import stat
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from mq.config import FOLDER_LOCK_SECONDS, KIB
from mq.disk.files import HIDDEN, Files
from mq.disk.status import may_stay
from mq.errors import InvalidRequest
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.locks import lock_names
from mq.spool.open_queues import OpenQueue
from mq.spool.queue.queue_settings import NO_SETTINGS, QueueSettings, change, parse_settings
from mq.spool.spool import Spool

SETTINGS_FILE = f"{HIDDEN}settings"

MAX_SETTINGS_BYTES = 64 * KIB
"""The largest size of the file."""

_LOCK_PAUSE_SECONDS = 0.002


class FileVersion(NamedTuple):
    """What distinguishes one state of a file from another."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


class SettingsRead(NamedTuple):
    """The result of a look at the file. With a `fault` there are no settings. `version` is None if
    there is no file, or if it may change without this being noticed."""

    settings: QueueSettings = NO_SETTINGS
    version: FileVersion | None = None
    fault: str | None = None


NO_FILE = SettingsRead()
"""The result of a look that finds no file."""


def read_settings(files: Files, opened: OpenQueue, queue: QueueName) -> SettingsRead:
    """Read the settings of a queue whose folder is open. Raises OSError."""
    if files.is_of_network:
        # The name may lead to the file that another host has just replaced, until it is asked for.
        files.exists(opened.fd, SETTINGS_FILE)
    try:
        fd = files.open_to_look(opened.fd, SETTINGS_FILE)
    except FileNotFoundError:
        return NO_FILE
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return SettingsRead(fault="a link or a special file, not settings")
        raise
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in files.owners:
            return SettingsRead(fault="not a regular file, or another user's")
        version = version_of(status)
        text = files.read(fd, MAX_SETTINGS_BYTES + 1)
    finally:
        files.close(fd)
    try:
        if len(text) > MAX_SETTINGS_BYTES:
            raise InvalidRequest(f"it has more than {MAX_SETTINGS_BYTES} bytes")
        return SettingsRead(parse_settings(queue, text.decode()), version)
    except (UnicodeDecodeError, InvalidRequest) as error:
        return SettingsRead(NO_SETTINGS, version, f"counts as empty: {error}")


def settings_in(spool: Spool, queue: QueueName) -> QueueSettings:
    """Return the settings as they are now. Raises OSError, and FileNotFoundError if there is no
    such queue."""
    return read_settings(spool.files, spool.queues.open(queue), queue).settings


def changed(queue: QueueName, before: QueueSettings, changes: Mapping[str, str]) -> QueueSettings:
    """Return the settings with some of them changed. Raises InvalidRequest, also if they would not
    fit into the file."""
    after = change(queue, before, changes)
    if len(after.text().encode()) > MAX_SETTINGS_BYTES:
        raise InvalidRequest(
            f"queue {queue}: its settings would have more than {MAX_SETTINGS_BYTES} bytes; take a "
            "tag or a note of a gateway away first"
        )
    return after


def change_settings(spool: Spool, queue: QueueName, changes: Mapping[str, str]) -> None:
    """Change some settings. It syncs the new file, so it is for a worker; the caller syncs the
    queue's folder. What a damaged file said is lost.

    Raises InvalidRequest; FileNotFoundError if there is no such queue, or another one at the end;
    BlockingIOError if other processes change its settings for FOLDER_LOCK_SECONDS; OSError.
    """
    with settings_lock(spool, queue):
        opened = spool.queues.open(queue)
        found = read_settings(spool.files, opened, queue)
        after = changed(queue, found.settings, changes)
        if after == found.settings and found.fault is None:
            return
        _replace(spool, opened, after)
        # Another thread may have opened the same folder again.
        if not spool.queues.open(queue).is_at(os.fstat(opened.fd)):
            raise FileNotFoundError(errno.ENOENT, "the queue was deleted meanwhile", queue)


@contextmanager
def settings_lock(spool: Spool, queue: QueueName) -> Iterator[None]:
    """Keep other processes from changing the settings. Raises BlockingIOError after
    FOLDER_LOCK_SECONDS."""
    deadline = time.monotonic() + FOLDER_LOCK_SECONDS
    while (fd := lock_names(spool, [f"{queue}/{SETTINGS_FILE}"])) is None:
        if time.monotonic() >= deadline:
            raise BlockingIOError(
                errno.EWOULDBLOCK, "another process is changing its settings", queue
            )
        time.sleep(_LOCK_PAUSE_SECONDS)
    try:
        yield
    finally:
        spool.files.close(fd)


def _replace(spool: Spool, opened: OpenQueue, settings: QueueSettings) -> None:
    files, new = spool.files, spool.fd(Folder.NEW)
    name = f"{HIDDEN}{uuid.uuid4()}"
    with synced_settings(spool, settings) as fd:
        spool.link(fd, Folder.NEW, name)
        try:
            files.replace(new, name, opened.fd, SETTINGS_FILE)
        except BaseException:
            with suppress(OSError):  # If this fails, a sweep discards the file.
                spool.unlink(Folder.NEW, name)
            raise


@contextmanager
def synced_settings(spool: Spool, settings: QueueSettings) -> Iterator[int]:
    """Write settings to a file in `new` that is synced and has no name yet, and yield its
    descriptor, which is closed at the end."""
    files = spool.files
    fd = files.open_unnamed(spool.fd(Folder.NEW), spool.file_mode)
    try:
        # Locked before it has a name: a sweep takes a hidden file without a lock for an upload of a
        # dead process.
        files.lock(fd)
        files.write(fd, settings.text().encode())
        files.sync(fd)
        yield fd
    finally:
        files.close(fd)


def version_of(status: os.stat_result) -> FileVersion | None:
    """Return what distinguishes this state from any later one, or None if a change within the same
    tick of the clock would look the same. What belongs to this state is read after that."""
    if may_stay(max(status.st_mtime_ns, status.st_ctime_ns), time.time_ns()):
        return None
    return FileVersion(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
