"""Messages of one queue that are published and not in the queue yet.

Either their server died, or met an error of the disk; a sweep delivers those. Or another process is
delivering them just now; they may be promised already, so a purge waits for them.
"""

from __future__ import annotations

from collections.abc import Callable

from mq.disk.files import HIDDEN
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.batch_names import is_for_several
from mq.spool.handovers import is_published
from mq.spool.message.held import Held, Lost, hold
from mq.spool.sets import hold_set, members_of_queue
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper


class Leftovers:
    """The leftovers that are in `new` at the first `deliver`. `report` takes the name of a file
    that cannot be placed, and why."""

    def __init__(self, spool: Spool, queue: QueueName, report: Callable[[str, str], None]) -> None:
        self._spool = spool
        self._queue = queue
        self._sweeper = Sweeper(spool, report)
        self._names: list[str] | None = None

    def deliver(self) -> bool:
        """Deliver them as a sweep does. Returns False if another process or thread has one of them,
        or has written it again meanwhile: try again. Raises OSError."""
        if self._names is None:
            self._names = [
                name for name in self._spool.names(Folder.NEW) if self._is_of_queue(name)
            ]
        tried = {name: self._inode(name) for name in self._names}
        for name in self._names:
            self._sweeper.sweep_name(name)
        self._names = [
            name
            for name, inode in tried.items()
            if self._inode(name) not in (None, inode) or self._is_held(name)
        ]
        return not self._names

    def _inode(self, name: str) -> int | None:
        return self._spool.inode(Folder.NEW, name)

    @property
    def was_hindered(self) -> bool:
        """Whether an error of the disk kept one of them from its queue."""
        return self._sweeper.was_hindered

    @property
    def uncopied(self) -> set[str]:
        """The messages in `new` that may be in memory alone, because of an error of the disk."""
        return self._sweeper.uncopied

    def _is_of_queue(self, name: str) -> bool:
        """Whether this is the name of a message or a published batch of the queue in `new`, or of
        one for several queues that has messages of this one."""
        if not is_published(self._spool, name):
            return False
        if is_for_several(name):
            return bool(members_of_queue(self._spool, Folder.NEW, name, self._queue))
        return name.removeprefix(HIDDEN).startswith(f"{self._queue}:")

    def _is_held(self, name: str) -> bool:
        spool = self._spool
        if name.startswith(HIDDEN):
            fd = hold_set(spool, Folder.NEW, name)
            if not isinstance(fd, Lost):
                spool.files.close(fd)
            return fd is Lost.BUSY
        held = hold(spool.files, spool.fd(Folder.NEW), name)
        if isinstance(held, Held):
            held.close()
        return held is Lost.BUSY
