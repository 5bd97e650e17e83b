"""What a process knows of the settings of queues, which others change."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.disk_errors import FAULTS_OF_ONE_MESSAGE
from mq.spool.message.seal import unless_unreadable
from mq.spool.open_queues import OpenQueue, OpenQueues
from mq.spool.queue.queue_settings import NO_SETTINGS, QueueSettings
from mq.spool.queue.settings_file import (
    NO_FILE,
    SETTINGS_FILE,
    FileVersion,
    SettingsRead,
    read_settings,
    version_of,
)

SETTINGS_LOOK_SECONDS = 0.5
"""A process that works on a queue looks at its settings again after this time."""


_OF_ONE_FILE = FAULTS_OF_ONE_MESSAGE | {errno.EIO}
"""Errors that concern one file alone: EIO if it lasts."""


class _KnownFile(NamedTuple):
    """What a look has found. `folder` is the queue's folder, if there was no such file in it."""

    settings: QueueSettings
    version: FileVersion | None
    fault: str | None
    next_look: float
    folder: FileVersion | None = None


_UNKNOWN = _KnownFile(NO_SETTINGS, None, None, 0.0)


class KnownSettings:
    """The settings of the queues that a process works on, at most SETTINGS_LOOK_SECONDS old. After
    that time the file is looked at again, and read if it has changed.

    `report` is called once for each damaged version, `changed` for each queue whose settings
    changed. Threads may share it: a lost race costs one more look.
    """

    def __init__(
        self, files: Files, queues: OpenQueues, report: Callable[[str, str], None]
    ) -> None:
        self.changed: Callable[[QueueName], None] = lambda queue: None
        self._files = files
        self._queues = queues
        self._report = report
        self._known: dict[str, _KnownFile] = {}
        self._forgets = 0

    def of(self, queue: QueueName) -> QueueSettings:
        """Return the settings of a queue, or those of a queue without settings if it does not
        exist. Raises OSError if an error keeps this process from a first look; a file that cannot
        be read by itself counts as empty then."""
        known = self._known.get(queue)
        if known is not None and time.monotonic() < known.next_look:
            return known.settings
        return self._look(queue, known or _UNKNOWN)

    def known(self, queue: QueueName) -> QueueSettings | None:
        """Return what the last look at a queue found, if that is not too long ago: in constant use
        `of` looks again before that. For any thread."""
        found = self._known.get(queue)
        if found is None or time.monotonic() >= found.next_look + SETTINGS_LOOK_SECONDS:
            return None
        return found.settings

    def paused(self) -> list[str]:
        """Return the queues that were paused at the last look at each. For any thread."""
        return [queue for queue, known in self._known.copy().items() if known.settings.paused]

    def forget(self, queue: QueueName) -> None:
        """Look again at the next use: the settings were changed, or the queue is another one. What
        another thread has read just before does not count any more."""
        self._forgets += 1
        known = self._known.get(queue)
        if known is not None:
            self._known[queue] = _outdated(known)

    def keep(self, queues: Collection[str]) -> None:
        """Forget all other queues."""
        for queue in self._known.keys() - queues:
            self._known.pop(queue, None)

    def _look(self, queue: QueueName, known: _KnownFile) -> QueueSettings:
        next_look, forgets = time.monotonic() + SETTINGS_LOOK_SECONDS, self._forgets
        folder = None
        try:
            if self._has_still_none(queue, known):
                self._keep_found(queue, known._replace(next_look=next_look), forgets)
                return known.settings
            found, folder = self._read(self._queues.open(queue), queue, known)
        except (FileNotFoundError, NotADirectoryError):
            self._known.pop(queue, None)
            return NO_SETTINGS
        except OSError as error:
            if known is _UNKNOWN and error.errno not in _OF_ONE_FILE:
                raise
            # The error does not say what the settings are, so they stay as they were.
            found = SettingsRead(known.settings, None, f"cannot be read: {error.strerror}")
        if found.fault is not None and found.fault != known.fault:
            self._report(f"{Folder.QUEUES}/{queue}/{SETTINGS_FILE}", found.fault)
        self._keep_found(queue, _KnownFile(*found, next_look, folder), forgets)
        if found.settings != known.settings:
            self.changed(queue)
        return found.settings

    def _keep_found(self, queue: QueueName, found: _KnownFile, forgets: int) -> None:
        """Keep what a look has found that began after that many calls of `forget`."""
        if forgets == self._forgets:
            self._known[queue] = found
            if forgets != self._forgets:  # Another thread came between these lines.
                self._known[queue] = _outdated(found)

    def _has_still_none(self, queue: QueueName, known: _KnownFile) -> bool:
        """Return whether a queue that had no settings has had nothing come or go since, which takes
        one look at its folder. Many queues are idle."""
        return known.folder is not None and known.folder == version_of(self._queues.status(queue))

    def _read(
        self, opened: OpenQueue, queue: QueueName, known: _KnownFile
    ) -> tuple[SettingsRead, FileVersion | None]:
        """Return what the file says, and the state of the folder if there is no file in it."""
        if known.version is not None:
            try:
                status = self._files.status_of(opened.fd, SETTINGS_FILE)
            except FileNotFoundError:
                return NO_FILE, None
            if version_of(status) == known.version:
                return SettingsRead(known.settings, known.version, known.fault), None
        folder = None if self._files.is_of_network else version_of(os.fstat(opened.fd))
        found = unless_unreadable(lambda: read_settings(self._files, opened, queue))
        if found is None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return found, folder if found is NO_FILE else None


def _outdated(known: _KnownFile) -> _KnownFile:
    """Return what is known, to be looked at again."""
    return known._replace(next_look=0.0, version=None, folder=None)
