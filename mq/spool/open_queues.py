"""The folders of queues, held open.

A queue's name can lead elsewhere from one call to the next: the queue is deleted and made again, a
person moves its folder away, or another user who may write into `queues` exchanges it with a link.
So its folder is opened once, never through a link, and only if it belongs to the owner of the root
and is on its file system. Everything in it is done by that descriptor and the bare name of the
message, and cannot leave it.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import count

from mq.disk.files import Files

MAX_OPEN_QUEUES = 1024
"""How many folders of queues stay open: at most an eighth of the files that a process may open."""

NOT_A_QUEUE = "no folder, another user's, or on another file system: not a queue"
"""What is wrong with a name in `queues` that does not lead to a folder of MQ."""

_NO_FOLDER = {errno.ENOTDIR, errno.ELOOP}

_TRIES = 3
"""How often a queue's folder is opened again if it is another one each time."""

_LOCK_PAUSE_SECONDS = 0.001
"""Between two tries to get a lock that another process holds."""


class OpenQueue:
    """The folder of a queue. `fd` is open while anything refers to this object, so it is never
    closed under a call that uses it."""

    __slots__ = ("_device", "_files", "_inode", "fd")

    def __init__(self, files: Files, fd: int) -> None:
        self._files, self.fd = files, fd
        status = os.fstat(fd)
        self._inode, self._device = status.st_ino, status.st_dev

    def is_at(self, status: os.stat_result) -> bool:
        """Return whether `status` is that of this folder. While the folder is open its inode number
        is not reused."""
        return status.st_ino == self._inode and status.st_dev == self._device

    def __del__(self) -> None:
        self._files.close(self.fd)


class OpenQueues:
    """The queues below one folder, of which up to MAX_OPEN_QUEUES stay open, if this process may
    open as many files.

    Threads may share it, except for `hold` and `let_go`. It has no lock that a forked process could
    find taken: a thread that loses a race opens a folder once more.
    """

    def __init__(self, files: Files, queues_fd: int) -> None:
        """Take `queues_fd`, which is open at `ROOT/queues` and stays open."""
        self._files = files
        self.fd = queues_fd
        self._most = _most_open()
        self._opened: dict[str, OpenQueue] = {}
        self._held: dict[str, OpenQueue] = {}

    def open(self, queue: str) -> OpenQueue:
        """Return the folder that the queue's name leads to now.

        Raises FileNotFoundError if there is none, NotADirectoryError if it is not a folder of MQ,
        PermissionError if this process may not open it.
        """
        held = self._held.get(queue)
        if held is not None:
            return held
        status = self.status(queue)
        known = self._opened.get(queue)
        return known if known is not None and known.is_at(status) else self._open(queue)

    def opened(self, queue: str) -> OpenQueue:
        """Return the folder that was opened last, even if the name leads elsewhere by now: what was
        done in it is to be synced. Raises what `open` raises."""
        return self._opened.get(queue) or self._open(queue)

    def hold(self, queue: str) -> os.stat_result:
        """Share the lock of the queue's folder until `let_go`, and return its status. Until then
        `open` returns that folder without another look.

        A process that deletes a queue takes that lock exclusively once the folder has lost its
        name, so the queue is not made again meanwhile. Raises BlockingIOError if another process
        holds the lock exclusively, and what `open` raises.
        """
        for _ in range(_TRIES):
            opened = self.opened(queue)
            try:
                is_shared = self._files.lock_shared(opened.fd)
            except OSError as error:
                if error.errno != errno.ESTALE:
                    raise
                self.drop(queue)  # Another host has removed that folder.
                continue
            try:
                status = self.status(queue)
            except OSError:
                if is_shared:
                    self._unlock(queue, opened)
                del opened  # the traceback would keep it open
                raise
            if not opened.is_at(status):
                if is_shared:
                    self._unlock(queue, opened)
                self.drop(queue)
            elif is_shared:
                self._held[queue] = opened
                return status
            else:
                break
        raise _locked_by_another(queue)

    @contextmanager
    def shared(self, queue: str, wait_seconds: float = 0.0) -> Iterator[OpenQueue]:
        """Share the lock of the queue's folder for one block, in any thread. Yields the folder,
        which no purge or deletion takes away from under the block.

        Raises BlockingIOError if another process holds the lock exclusively for `wait_seconds`, and
        what `open` raises.
        """
        opened, fd = self._lock(queue, self._files.lock_shared, wait_seconds)
        try:
            yield opened
        finally:
            self._files.close(fd)

    def lock_alone(self, queue: str, wait_seconds: float) -> int:
        """Take the lock exclusively: returns a descriptor of the folder, which holds the lock until
        it is closed. Raises what `shared` raises."""
        return self._lock(queue, self._files.lock, wait_seconds)[1]

    def _lock(
        self, queue: str, take_lock: Callable[[int], bool], wait_seconds: float
    ) -> tuple[OpenQueue, int]:
        """Lock the folder that has the queue's name: it may be another one by the time its lock is
        free."""
        deadline = time.monotonic() + wait_seconds
        for number in count(1):
            opened = self.open(queue)
            fd = self._files.open_folder(opened.fd, ".")
            is_locked = is_ours = False
            try:
                is_locked = take_lock(fd)
                is_ours = is_locked and opened.is_at(self.status(queue))
            finally:
                if not is_ours:
                    self._files.close(fd)
            if is_ours:
                return opened, fd
            if time.monotonic() >= deadline and (number >= _TRIES or not is_locked):
                break
            time.sleep(_LOCK_PAUSE_SECONDS)
        raise _locked_by_another(queue)

    def is_held(self, queue: str) -> bool:
        return queue in self._held

    def let_go(self, queue: str) -> None:
        held = self._held.pop(queue, None)
        if held is not None:
            self._unlock(queue, held)

    def _unlock(self, queue: str, opened: OpenQueue) -> None:
        """Release the lock. If that fails, the lock ends with the descriptor, which is not used any
        more."""
        try:
            self._files.unlock(opened.fd)
        except OSError:
            self.drop(queue)

    def let_go_all(self) -> None:
        while self._held:
            self._unlock(*self._held.popitem())

    def drop(self, queue: str) -> None:
        """Forget a queue that was deleted or whose folder is another one."""
        self._opened.pop(queue, None)

    def keep(self, queues: Collection[str]) -> None:
        """Close the folders of all other queues: while one that was deleted is open, it takes
        room."""
        for queue in self._opened.keys() - queues:
            self.drop(queue)

    def close(self) -> None:
        """Let go of every folder; each is opened again when it is asked for."""
        self.let_go_all()
        self._opened.clear()

    def status(self, queue: str) -> os.stat_result:
        """Return the status of what has the queue's name now. Raises NotADirectoryError if it is
        not a folder of MQ."""
        try:
            status = self._files.status_of(self.fd, queue)
            if not self.is_queue(status):
                raise _not_ours(queue)
        except (FileNotFoundError, NotADirectoryError):
            self.drop(queue)
            raise
        return status

    def is_there(self, queue: str) -> bool:
        """Return whether there is a folder of MQ of that name now."""
        try:
            self.status(queue)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_queue(self, status: os.stat_result) -> bool:
        """Return whether `status` is that of a folder of MQ. What is mounted there is not one: no
        rename leads from one file system to another."""
        is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid in self._files.owners
        return is_ours and status.st_dev == os.fstat(self.fd).st_dev

    def _open(self, queue: str) -> OpenQueue:
        try:
            opened = OpenQueue(self._files, self._files.open_folder(self.fd, queue))
        except OSError as error:
            if error.errno in _NO_FOLDER:
                raise _not_ours(queue) from None
            if error.errno == errno.EACCES:
                raise _shut(queue, self.status(queue)) from None
            raise
        if not self.is_queue(os.fstat(opened.fd)):
            del opened  # the traceback would keep it open
            raise _not_ours(queue)
        self._opened.pop(queue, None)
        self._opened[queue] = opened
        if len(self._opened) > self._most:
            # Several at once: to find the oldest one takes time for each queue.
            for oldest in list(self._opened)[: self._most // 8 + 1]:
                self.drop(oldest)
        return opened


def _most_open() -> int:
    """Return how many queues stay open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_unlimited = files == resource.RLIM_INFINITY
    return MAX_OPEN_QUEUES if is_unlimited else min(MAX_OPEN_QUEUES, files // 8)


def _not_ours(queue: str) -> NotADirectoryError:
    return NotADirectoryError(errno.ENOTDIR, NOT_A_QUEUE, f"queues/{queue}")


def _shut(queue: str, status: os.stat_result) -> PermissionError:
    mode = stat.S_IMODE(status.st_mode)
    why = (
        f"queues/{queue} belongs to user {status.st_uid} and has mode {mode:04o}, which shuts user "
        f"{os.geteuid()} out: chown or chmod it"
    )
    return PermissionError(errno.EACCES, why, f"queues/{queue}")


def _locked_by_another(queue: str) -> BlockingIOError:
    return BlockingIOError(errno.EWOULDBLOCK, "another process holds the lock of its folder", queue)
