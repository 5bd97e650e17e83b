"""A queue that is made with settings has them from its first moment on.

    1. new/.QUEUE:UUID.open/                    an empty set, whose lock is held to the end
    2. new/.QUEUE:UUID.open/.settings           whole and synced before it has that name
    3. new/.QUEUE:UUID.open -> queues/QUEUE     one rename; the caller syncs

Before step 3 it is an open batch of the queue to every other process: what a crash leaves of it is
given up by a sweep, and a deletion of the queue takes it along.
"""

from __future__ import annotations

from contextlib import suppress

from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.batch_names import new_batch_name
from mq.spool.message.held import NO_FD, Lost
from mq.spool.queue.queue_settings import QueueSettings
from mq.spool.queue.queues import Made, mode_of_queues, name_queue
from mq.spool.queue.settings_file import SETTINGS_FILE, synced_settings
from mq.spool.removed_folders import leave_to_reaper
from mq.spool.sets import hold_set
from mq.spool.spool import Spool


class PreparedQueue:
    """The folder of a queue, with its settings, that has no place yet. `close` it in any case."""

    def __init__(self, spool: Spool, queue: QueueName, settings: QueueSettings) -> None:
        """Make nothing yet."""
        self._spool = spool
        self._queue = queue
        self._settings = settings
        self._name, self._fd = "", NO_FD

    def make(self) -> None:
        """Take steps 1 and 2. This syncs the settings, so it is for a worker. Raises OSError."""
        spool = self._spool
        mode = mode_of_queues(spool.fd(Folder.QUEUES))
        while self._fd == NO_FD:
            self._name = new_batch_name(self._queue).open
            spool.files.make_folder(spool.fd(Folder.NEW), self._name, mode)
            fd = hold_set(spool, Folder.NEW, self._name)
            # A sweep may have seen it before it was locked, and gives it up then.
            self._fd = NO_FD if isinstance(fd, Lost) else fd
        with synced_settings(spool, self._settings) as fd:
            spool.files.link(fd, self._fd, SETTINGS_FILE)

    def put_in_place(self) -> Made:
        """Take step 3, unless there is a queue of that name, or a deletion of one is unfinished.

        Raises FileNotFoundError if a deletion has taken the folder along, BlockingIOError while
        another process makes or deletes a queue, OSError.
        """
        queues_fd = self._spool.fd(Folder.QUEUES)
        made = name_queue(self._spool.files, queues_fd, self._queue, self._move)
        if made is Made.CREATED:
            self._let_go()
        return made

    def _move(self) -> None:
        spool = self._spool
        if spool.exists(Folder.QUEUES, self._queue):
            # Where no rename refuses to replace, it would replace an empty folder.
            raise FileExistsError
        new, queues = spool.opened(Folder.NEW), spool.opened(Folder.QUEUES)
        spool.moves.rename(new, self._name, queues, self._queue)

    def close(self) -> None:
        """Leave the folder to the reaper, if it has got no place. If it cannot be moved, a sweep
        does that."""
        if self._fd != NO_FD:
            with suppress(OSError):
                leave_to_reaper(self._spool, Folder.NEW, self._name, self._queue)
            self._let_go()

    def _let_go(self) -> None:
        fd, self._fd = self._fd, NO_FD
        self._spool.files.close(fd)
