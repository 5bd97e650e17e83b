"""Spool: the open folders of one root, and the moves between them.

Each is opened for an actor. A move is checked against the table of `mq.lifecycle`, so a move that
the map does not have for that actor cannot happen.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mq.disk.calls import LINK, RENAME, Call
from mq.disk.files import Files
from mq.disk.listing import list_names
from mq.errors import PropertiesUnsupported
from mq.lifecycle import FIXED_FOLDERS, Actor, Folder, MoveRefused
from mq.names import QueueName, is_queue_name
from mq.spool.moves import Moves, OpenFolder
from mq.spool.open_queues import OpenQueue, OpenQueues
from mq.spool.root_format import LONG_SEALS, raise_format, read_format

_QUEUES = Folder.QUEUES
"""A lookup of a member of an enumeration takes as long as a call."""


def sticky(mode: int) -> int:
    """Return the mode of a folder that holds folders: with the sticky bit if other users may write,
    so that they cannot rename these."""
    return mode | stat.S_ISVTX if mode & (stat.S_IWGRP | stat.S_IWOTH) else mode


def _log_left(name: str, why: str) -> None:
    logging.getLogger(__name__).warning("file left where it is: %s: %s", name, why)


class Spool:
    """The folders of an existing root. `mq.spool.root` checks and makes one.

    The fixed folders are held open. `QUEUE/ID` below `queues` is reached by the descriptor of the
    queue's folder, the one that the queue's name leads to now (`mq.spool.open_queues`).
    """

    def __init__(self, root: Path, files: Files, actor: Actor) -> None:
        """Open the folders of a root. Every move through this object is one of `actor`."""
        self.root = root
        self.files = files
        self.moves = Moves(files, actor)
        self._allowed = self.moves.allowed
        self.report_left: Callable[[str, str], None] = _log_left
        """Called with the name of a file that had to be left or set aside, and why. A server puts
        its own log here. It is not imported here, because every Python process of Spark would have
        to load it."""
        self.has_seals = True
        self.has_one_log = self.has_data_log = False
        """Whether all changes of names and attributes on the file system are entries of one log, of
        which a sync makes everything durable up to its entry; written-out data too, if it pays."""
        self.has_long_seals = read_format(root) == LONG_SEALS
        """Whether the root's format file is known to allow long seals."""
        self._has_raised_format = False
        self._fds = {
            folder: files.open_folder(None, str(root / folder)) for folder in FIXED_FOLDERS
        }
        self._fixed_fds = dict(self._fds)
        self._opened_at: dict[Folder, tuple[str, os.stat_result]] = {}
        """The paths of the others, and what was there when they were opened."""
        self.queues = OpenQueues(files, self._fds[Folder.QUEUES])
        # The root may be a folder that others made for MQ, open to all; the folders that MQ made
        # are not.
        self._mode = os.stat(root).st_mode & os.fstat(self._fds[Folder.NEW]).st_mode & 0o777
        self.mode = sticky(self._mode)
        self.file_mode = self._mode & 0o666

    def close(self) -> None:
        self.queues.close()
        self._fixed_fds.clear()
        self._opened_at.clear()
        while self._fds:
            self.files.close(self._fds.popitem()[1])

    def reopen(self) -> None:
        """Open every folder again after a failed sync; the descriptors keep their numbers."""
        self.queues.close()
        for folder in FIXED_FOLDERS:
            self._replace(folder, self.files.open_folder(None, str(self.root / folder)))
        for folder in self._fds.keys() - set(FIXED_FOLDERS):
            # A queue whose folder was moved away is made when it is needed again, or refused then.
            with suppress(FileNotFoundError, PermissionError):
                self._replace(folder, self._open_own(str(self.root / folder)))

    def use_long_seals(self) -> None:
        """Prepare the root for a long seal: from now on no version that lacks these opens it,
        even after a power cut. Raises OSError, PropertiesUnsupported, StoreUnavailable."""
        if self._has_raised_format:
            return
        if not self.has_seals:
            raise PropertiesUnsupported(
                f"the file system of {self.root} has no extended attributes, so messages cannot "
                "have properties there; publish without them, or move the root to ext4, xfs or "
                "btrfs"
            )
        raise_format(self.root, self.files)
        self.has_long_seals = self._has_raised_format = True

    def fd(self, folder: Folder) -> int:
        """Return the folder's descriptor. `corrupt` and `spark` are made and opened when they are
        first asked for, and again when they are gone."""
        fixed = self._fixed_fds.get(folder)
        if fixed is not None:
            return fixed
        if not self._is_there(folder):
            path = str(self.root / folder)
            try:
                mode = self._mode if folder is Folder.CORRUPT else self.mode
                self.files.make_folder(None, path, mode)
            except FileExistsError:
                pass
            self._replace(folder, self._open_own(path))
        return self._fds[folder]

    def opened(self, folder: Folder) -> OpenFolder:
        """Return the folder's descriptor with the folder's name in the table."""
        return OpenFolder(folder, self.fd(folder))

    def _replace(self, folder: Folder, fd: int) -> None:
        """Open another folder under the same descriptor: other threads may be using its number."""
        if folder in self._fds:
            self.files.replace_fd(fd, self._fds[folder])
        else:
            self._fds[folder] = fd
        self._opened_at[folder] = (str(self.root / folder), os.fstat(self._fds[folder]))

    def _is_there(self, folder: Folder) -> bool:
        """Return whether a folder is open, and still is what its name leads to."""
        known = self._opened_at.get(folder)
        try:
            return known is not None and os.path.samestat(known[1], os.lstat(known[0]))
        except FileNotFoundError:
            return False

    def _open_own(self, path: str) -> int:
        try:
            fd = self.files.open_folder(None, path)
        except NotADirectoryError:
            raise PermissionError(errno.EPERM, f"{path} is a link or a file", path) from None
        if os.fstat(fd).st_uid in self.files.owners:
            return fd
        self.files.close(fd)
        raise PermissionError(errno.EPERM, f"{path} belongs to another user", path)

    def at(self, folder: Folder, name: str) -> tuple[int, str, OpenQueue | None]:
        """Return where a name is: the folder's descriptor, the bare name in it, and what keeps the
        descriptor open. It is a plain tuple, which is made in a third of the time of a named one.

        Raises FileNotFoundError if there is no such queue, NotADirectoryError if what has its name
        is not a folder of MQ.
        """
        if folder is _QUEUES:
            queue, slash, inside = name.partition("/")
            if slash:
                opened = self.queues.open(queue)
                return opened.fd, inside, opened
        return self._fixed_fds.get(folder) or self.fd(folder), name, None

    def move(self, source: Folder, source_name: str, target: Folder, target_name: str) -> bool:
        """Rename from one folder to another; never replaces.

        Returns False when the source, or the queue folder of the target, is not there: another
        process was faster. Raises FileExistsError when the target's name is taken, MoveRefused if
        the table does not give this move to the actor.
        """
        if (source, target) not in self._allowed:  # as Moves.rename, in half the time
            raise MoveRefused(self.moves.actor, source, target)
        try:
            here, there = self.at(source, source_name), self.at(target, target_name)
            self.files.rename(here[0], here[1], there[0], there[1])
        except FileNotFoundError:
            return False
        return True

    def move_call(
        self, source: Folder, source_name: str, target: Folder, target_name: str
    ) -> tuple[Call, tuple[OpenQueue | None, ...]]:
        """Return the call that makes a move, for `mq.disk.calls`, and what keeps its descriptors
        open. Raises MoveRefused, and what `at` raises."""
        if (source, target) not in self._allowed:
            raise MoveRefused(self.moves.actor, source, target)
        here, there = self.at(source, source_name), self.at(target, target_name)
        return (RENAME, here[0], here[1], there[0], there[1]), (here[2], there[2])

    def rename_call(
        self, source: Folder, source_fd: int, source_name: str, target: Folder, target_name: str
    ) -> Call:
        """Return the call of a move out of an open folder to a fixed one. Raises MoveRefused."""
        if (source, target) not in self._allowed:
            raise MoveRefused(self.moves.actor, source, target)
        return RENAME, source_fd, source_name, self._fixed_fds[target], target_name

    def move_aside(
        self, source: Folder, source_name: str, target: Folder, target_name: str
    ) -> str | None:
        """Move like `move`, but append `~2`, `~3`, ... to a name that is taken.

        Returns the name that the file has now, or None if the source is gone.
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
        """Return the inode number behind a name, or None if there is none."""
        status = self.status(folder, name)
        return None if status is None else status.st_ino

    def status(self, folder: Folder, name: str) -> os.stat_result | None:
        try:
            fd, bare, _keeper = self.at(folder, name)
            return self.files.status_of(fd, bare)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def path(self, folder: Folder, name: str) -> str:
        """Return the absolute path, for the few calls that take no descriptor."""
        return f"{self.root}/{folder}/{name}"

    def names(self, folder: Folder) -> list[str]:
        return list_names(self.files, self._fds[folder])

    def queue_names(self) -> list[QueueName]:
        """Return the names of all queues, sorted. Raises OSError."""
        return [QueueName(each) for each in sorted(self.names(_QUEUES)) if is_queue_name(each)]

    def names_in_queue(self, queue: QueueName) -> list[str]:
        """Return the names in a queue's folder. Raises what `at` raises."""
        opened = self.queues.open(queue)
        return list_names(self.files, opened.fd)

    def names_below(self, folder: Folder, name: str) -> list[str]:
        """Return the names in a folder inside `folder`. Raises FileNotFoundError,
        NotADirectoryError."""
        return list_names(self.files, self.fd(folder), name)

    def names_if_any(self, folder: Folder, name: str) -> list[str]:
        """Return what `names_below` returns, or nothing if there is no such folder."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return self.names_below(folder, name)
        return []

    def make_folders(self, folder: Folder, *names: str) -> None:
        """Make each of these folders inside `folder`, unless it exists. Raises FileNotFoundError,
        OSError."""
        for name in names:
            with suppress(FileExistsError):
                self.files.make_folder(self.fd(folder), name, self.mode)

    def rename_within(self, folder: Folder, source_name: str, target_name: str) -> None:
        """Give another name to something that stays in its folder. Raises FileExistsError,
        FileNotFoundError, MoveRefused."""
        opened = self.opened(folder)
        self.moves.rename(opened, source_name, opened, target_name)

    def link(self, fd: int, folder: Folder, name: str, source: Folder | None = None) -> None:
        """Give an open file a name: the first name of a new file, or another name of a file in
        `source`. Raises FileExistsError, FileNotFoundError, MoveRefused."""
        self.moves.require(source, folder)
        self.files.link(fd, self.fd(folder), name)

    def link_call(self, fd: int, folder: Folder, name: str) -> Call:
        """Return the call that gives a new file its first name, for `mq.disk.calls`. Raises
        MoveRefused."""
        self.moves.require(None, folder)
        return LINK, fd, self._fixed_fds.get(folder) or self.fd(folder), name

    def unlink(self, folder: Folder, name: str) -> None:
        """Unlink a name. Raises FileNotFoundError, MoveRefused."""
        self.moves.unlink(self.opened(folder), name)
