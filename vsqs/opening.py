"""Opening a queue's folder: which links are followed, and whose folder it may be."""

from __future__ import annotations

import errno
import os
import stat
import warnings

from mq.disk.files import Files


def open_queue_folder(files: Files, path: str) -> int:
    """Open the folder, and warn if it belongs to another user. Raises PermissionError if a link
    that another user planted leads there."""
    refuse_planted_links(path)
    fd = files.open_folder(None, os.path.realpath(path))
    try:
        _warn_of_owner(os.fstat(fd).st_uid, path)
    except BaseException:
        files.close(fd)
        raise
    return fd


def _warn_of_owner(owner: int, path: str) -> None:
    if owner not in (0, os.geteuid()):
        warnings.warn(
            f"queue {path}: the folder belongs to user {owner}, who can read, change and take away "
            "every message in it",
            stacklevel=3,
        )


def refuse_planted_links(path: str) -> None:
    """Decide as the kernel does with fs.protected_symlinks: in a folder like /tmp, where everybody
    may make files, a link is followed only if this user or the owner of that folder made it."""
    parent, name = os.path.split(path)
    if not name:
        return
    refuse_planted_links(parent)
    try:
        status, holder = os.lstat(path), os.stat(parent)
    except FileNotFoundError:
        return
    is_open_to_all = holder.st_mode & (stat.S_ISVTX | stat.S_IWOTH) == stat.S_ISVTX | stat.S_IWOTH
    trusted = (os.geteuid(), holder.st_uid)
    if stat.S_ISLNK(status.st_mode) and is_open_to_all and status.st_uid not in trusted:
        raise PermissionError(
            errno.EACCES, f"a link that user {status.st_uid} made in a folder for all", path
        )
