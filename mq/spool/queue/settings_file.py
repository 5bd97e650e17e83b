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
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from mq.config import FOLDER_LOCK_SECONDS, KIB
from mq.disk.files import HIDDEN, Files
from mq.disk.status import SAME_TICK_NS
from mq.errors import InvalidRequest
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.folders import Spool
from mq.spool.locks import lock_names
from mq.spool.open_queues import OpenQueue, OpenQueues
from mq.spool.queue.queue_settings import NO_SETTINGS, QueueSettings, change, parse_settings

SETTINGS_FILE = f"{HIDDEN}settings"

SETTINGS_LOOK_SECONDS = 0.5
"""A process that works on a queue looks at its settings again after this time."""

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


def read_settings(files: Files, opened: OpenQueue, queue: QueueName) -> SettingsRead:
    """Read the settings of a queue whose folder is open. Raises OSError."""
    try:
        fd = files.open_to_look(opened.fd, SETTINGS_FILE)
    except FileNotFoundError:
        return SettingsRead()
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return SettingsRead(fault="a link or a special file, not settings")
        raise
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in files.owners:
            return SettingsRead(fault="not a regular file, or another user's")
        text = files.read(fd, MAX_SETTINGS_BYTES + 1)
    finally:
        files.close(fd)
    version = _version(status)
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
    fd = files.open_unnamed(new, spool.file_mode)
    is_left = False
    try:
        # Locked before it has a name: a sweep takes a hidden file without a lock for an upload of a
        # dead process.
        files.lock(fd)
        files.write(fd, settings.text().encode())
        files.sync(fd)
        spool.link(fd, Folder.NEW, name)
        is_left = True
        files.replace(new, name, opened.fd, SETTINGS_FILE)
        is_left = False
    finally:
        if is_left:
            with suppress(OSError):  # If this fails, a sweep discards the file.
                spool.unlink(Folder.NEW, name)
        files.close(fd)


def _version(status: os.stat_result) -> FileVersion | None:
    if status.st_mtime_ns >= time.time_ns() - SAME_TICK_NS:
        return None
    return FileVersion(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class _KnownFile(NamedTuple):
    settings: QueueSettings
    version: FileVersion | None
    fault: str | None
    next_look: float


_UNKNOWN = _KnownFile(NO_SETTINGS, None, None, 0.0)


class KnownSettings:
    """The settings of the queues that a process works on, at most SETTINGS_LOOK_SECONDS old. After
    that time the file is looked at again, and read if it has changed.

    `report` is called once for each damaged version, `changed` for each queue whose settings
    changed. Threads may share it: a lost race costs one more look.
    """

    def __init__(
        self,
        files: Files,
        queues: OpenQueues,
        report: Callable[[str, str], None],
        changed: Callable[[QueueName], None] = lambda queue: None,
    ) -> None:
        self.changed = changed
        self._files = files
        self._queues = queues
        self._report = report
        self._known: dict[str, _KnownFile] = {}

    def of(self, queue: QueueName) -> QueueSettings:
        """Return the settings of a queue, or those of a queue without settings if it does not
        exist."""
        known = self._known.get(queue)
        if known is not None and time.monotonic() < known.next_look:
            return known.settings
        return self._look(queue, known or _UNKNOWN)

    def forget(self, queue: QueueName) -> None:
        """Look again at the next use: the settings were changed, or the queue is another one."""
        known = self._known.get(queue)
        if known is not None:
            self._known[queue] = known._replace(next_look=0.0, version=None)

    def keep(self, queues: Collection[str]) -> None:
        """Forget all other queues."""
        for queue in self._known.keys() - queues:
            self._known.pop(queue, None)

    def _look(self, queue: QueueName, known: _KnownFile) -> QueueSettings:
        try:
            opened = self._queues.open(queue)
            found = self._read(opened, queue, known)
        except (FileNotFoundError, NotADirectoryError):
            self._known.pop(queue, None)
            return NO_SETTINGS
        except OSError as error:
            # The error does not say what the settings are, so they stay as they were.
            found = SettingsRead(known.settings, None, f"cannot be read: {error.strerror}")
        if found.fault is not None and found.fault != known.fault:
            self._report(f"{Folder.QUEUES}/{queue}/{SETTINGS_FILE}", found.fault)
        next_look = time.monotonic() + SETTINGS_LOOK_SECONDS
        self._known[queue] = _KnownFile(found.settings, found.version, found.fault, next_look)
        if found.settings != known.settings:
            self.changed(queue)
        return found.settings

    def _read(self, opened: OpenQueue, queue: QueueName, known: _KnownFile) -> SettingsRead:
        if known.version is not None:
            try:
                status = os.stat(SETTINGS_FILE, dir_fd=opened.fd, follow_symlinks=False)
            except FileNotFoundError:
                return SettingsRead()
            if _version(status) == known.version:
                return SettingsRead(known.settings, known.version, known.fault)
        return read_settings(self._files, opened, queue)
