"""SharedFolder: the folder that the threads of a process, and its forked children, have open."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vsqs.folder import QueueFolder


class FolderClosed(Exception):
    """It is closed for good."""


class SharedFolder:
    """A folder that is opened when it is first needed, and again after an error or a fork. `lock`
    is held during each step in the folder, never while something is written, read or synced."""

    def __init__(self, open_folder: Callable[[threading.Lock], QueueFolder]) -> None:
        self.lock = threading.Lock()
        self._is_closed = False
        self._open_folder = open_folder
        self._folder: QueueFolder | None = None
        _all.add(self)

    @contextmanager
    def entered(self) -> Iterator[QueueFolder]:
        """Yield the open folder. Raises FolderClosed after `close`. After an error the folder is
        used no more: what a descriptor says after its sync has failed cannot be trusted, and what a
        signal's handler raises may come between events and the index."""
        with self.lock:
            folder = self._enter()
        try:
            yield folder
        except BaseException:
            with self.lock:
                self._drop(folder)
            raise
        finally:
            with self.lock:
                folder.users -= 1
                if folder.is_dropped and not folder.users:
                    folder.close()

    def close(self) -> None:
        """Close the folder, and wake the threads that wait in it."""
        with self.lock:
            self._is_closed = True
            self._drop(self._folder)
        _all.discard(self)

    def abandon(self) -> None:
        """Forget all users. This is called when nothing holds the queue any more, and after a fork:
        no other thread lives on in the child, and what the parent has open belongs to the parent.
        """
        self.lock = threading.Lock()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.close()

    def _enter(self) -> QueueFolder:
        if self._is_closed:
            raise FolderClosed
        if self._folder is None:
            self._folder = self._open_folder(self.lock)
        self._folder.users += 1
        return self._folder

    def _drop(self, folder: QueueFolder | None) -> None:
        """Let the next call open the folder again; the last of its users closes it."""
        if folder is None or folder.is_dropped:
            return
        folder.drop()
        if folder is self._folder:
            self._folder = None
        if not folder.users:
            folder.close()


_all: weakref.WeakSet[SharedFolder] = weakref.WeakSet()
"""Queues that a forked child has to open again. There is one set, because a hook of fork cannot be
taken back."""


def _begin_in_child() -> None:
    for shared in list(_all):
        shared.abandon()


os.register_at_fork(after_in_child=_begin_in_child)
