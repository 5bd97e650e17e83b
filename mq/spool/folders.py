"""Spool: the open folders of one root, and the moves between them.

A move is checked against `mq.lifecycle`, so what the map does not draw cannot happen.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from mq.lifecycle import FIXED_FOLDERS, Actor, Folder, allowed_moves
from mq.names import QueueName
from mq.spool.files import Files

DELETING_SUFFIX = ":.deleting"
"""`remove/QUEUE:.deleting` is the folder of a queue whose deletion is under way."""


class Spool:
    """The folders of an existing root. `mq.spool.root` checks and makes one.

    Only the fixed folders are held open; a queue is reached as `QUEUE/ID` relative to `queues`,
    so a queue that another process deleted is seen as gone.
    """

    def __init__(self, root: Path, files: Files, *others: Actor) -> None:
        """For a server, and for whoever of `others` may do more."""
        self.root = root
        self.files = files
        self.has_seals = True
        self._allowed = allowed_moves(Actor.SERVER).union(*map(allowed_moves, others))
        self._fds = {
            folder: files.open_folder(None, str(root / folder)) for folder in FIXED_FOLDERS
        }
        self.mode = os.stat(root).st_mode & 0o777
        self.file_mode = self.mode & 0o666

    def close(self) -> None:
        while self._fds:
            self.files.close(self._fds.popitem()[1])

    def reopen(self) -> None:
        """Open every folder anew after a failed sync; the descriptors keep their numbers."""
        for folder, fd in list(self._fds.items()):
            self.files.replace_fd(self.files.open_folder(None, str(self.root / folder)), fd)

    def fd(self, folder: Folder) -> int:
        """The folder's descriptor. `corrupt` is made and opened when first asked for."""
        if folder not in self._fds:
            path = str(self.root / folder)
            try:
                self.files.make_folder(None, path, self.mode)
            except FileExistsError:
                pass
            self._fds[folder] = self._open_own(path)
        return self._fds[folder]

    def _open_own(self, path: str) -> int:
        fd = self.files.open_folder(None, path)
        if os.fstat(fd).st_uid in self.files.owners:
            return fd
        self.files.close(fd)
        raise PermissionError(errno.EPERM, "the folder belongs to another user", path)

    def move(self, source: Folder, source_name: str, target: Folder, target_name: str) -> bool:
        """Rename from one folder to another; never replaces.

        Returns False when the source, or the queue folder of the target, is not there: somebody
        else was faster. Raises FileExistsError when the target's name is taken.
        """
        assert (source, target) in self._allowed, f"no move from {source} to {target}"
        try:
            self.files.rename(self.fd(source), source_name, self.fd(target), target_name)
        except FileNotFoundError:
            return False
        return True

    def move_aside(
        self, source: Folder, source_name: str, target: Folder, target_name: str
    ) -> str | None:
        """Like `move`, but a taken name gets `~2`, `~3`, ... behind it.

        Returns the name taken, None when the source is gone.
        """
        name, number = target_name, 1
        while True:
            try:
                return name if self.move(source, source_name, target, name) else None
            except FileExistsError:
                number += 1
                name = f"{target_name}~{number}"

    def exists(self, folder: Folder, name: str) -> bool:
        return self.inode(folder, name) is not None

    def inode(self, folder: Folder, name: str) -> int | None:
        """The inode number behind a name; None if there is none."""
        status = self.status(folder, name)
        return None if status is None else status.st_ino

    def status(self, folder: Folder, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self.fd(folder), follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ENOTDIR:
                return None
            raise

    def path(self, folder: Folder, name: str) -> str:
        """The absolute path, for the few calls that take no descriptor."""
        return f"{self.root}/{folder}/{name}"

    def names(self, folder: Folder) -> list[str]:
        return self._names(self._fds[folder], ".")

    def names_in_queue(self, queue: QueueName) -> list[str]:
        """The names in a queue's folder. Raises FileNotFoundError if there is no such queue."""
        return self._names(self._fds[Folder.QUEUES], queue)

    def names_below(self, folder: Folder, name: str) -> list[str]:
        """The names in a folder inside `folder`. Raises FileNotFoundError, NotADirectoryError."""
        return self._names(self.fd(folder), name)

    def _names(self, folder_fd: int, name: str) -> list[str]:
        # Opened anew: two threads that list one descriptor share its position.
        fd = self.files.open_folder(folder_fd, name)
        try:
            return os.listdir(fd)
        finally:
            self.files.close(fd)

    def rename_folder(self, folder: Folder, source_name: str, target_name: str) -> None:
        """Rename a set where it is, to seal it or to fence its owner off. No message moves.

        Raises FileExistsError, FileNotFoundError.
        """
        fd = self.fd(folder)
        self.files.rename(fd, source_name, fd, target_name)

    def rename_in_remove(self, source_name: str, target_name: str) -> None:
        """A deleted queue is handed to the reaper."""
        remove = self._fds[Folder.REMOVE]
        self.files.rename(remove, source_name, remove, target_name)
