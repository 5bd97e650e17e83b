"""What keeps a process from working on a root that was in order when it was opened."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from mq.errors import CommandFailed, ExitCode
from mq.lifecycle import FIXED_FOLDERS
from mq.spool.file_system import file_system_options
from mq.spool.root_format import FORMAT_FILE, find_unknown_format
from mq.spool.spool import Spool

_LOST = {errno.ENOTCONN, errno.ESHUTDOWN}
"""What a descriptor says whose mount has lost what was behind it. It never works again."""

_AFTER_AN_ERROR = "emergency_ro"
"""An option of an ext4 that has met an error and refuses every change. Since Linux 6.15 its flags
do not say so."""


def require_at(fd: int, path: Path) -> None:
    """Raise CommandFailed if the path now leads to a folder other than the open one, or nowhere."""
    if not is_at(fd, path):
        raise CommandFailed(
            ExitCode.ROOT,
            f"folder {path} is not the one that this process opened: that was moved away, or its "
            "file system was mounted again; put it back, and start again",
        )


def find_trouble(spool: Spool) -> str | None:
    """Return why nobody can work on the root now, or why its path leads to another root, in words;
    None if all is well. Raises OSError."""
    moved = find_moved_folder(spool)
    if moved is not None:
        return moved
    if _is_read_only(spool):
        return (
            f"the file system of {spool.root} is read-only; see the kernel's log, and remount it, "
            "or check it while it is not mounted"
        )
    if not os.path.lexists(spool.root / FORMAT_FILE):
        return (
            f"{spool.root / FORMAT_FILE} is missing, so producers cannot publish under their own "
            f"ids; `mqctl --root {spool.root} fsck --repair` writes it"
        )
    return find_unknown_format(spool.root)


def _is_read_only(spool: Spool) -> bool:
    """Return whether nothing can be changed. It changes nothing itself, and so does not wait while
    the file system is frozen. Raises OSError."""
    flags = os.fstatvfs(spool.fd(FIXED_FOLDERS[0])).f_flag
    return bool(flags & os.ST_RDONLY) or _AFTER_AN_ERROR in file_system_options(spool.root)


def find_moved_folder(spool: Spool) -> str | None:
    """Return a folder that is held open but is no longer the one that others find in the root, in
    words; None if there is none. Raises OSError."""
    for folder in FIXED_FOLDERS:
        path = spool.root / folder
        if not is_at(spool.fd(folder), path):
            return (
                f"{path} is not the folder that this server opened: that was moved away, or its "
                "file system was mounted again; put it back, or restart the server"
            )
    return None


def is_at(fd: int, path: Path) -> bool:
    """Return whether a path leads to the folder that is open as `fd`: not if that was lost with its
    mount, and its file system is mounted again. Raises OSError."""
    try:
        there = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return os.path.samestat(os.fstat(fd), there)
    except OSError as error:
        if error.errno not in _LOST:
            raise
        return False
