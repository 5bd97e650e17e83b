"""Opening a queue's folder: making it, which links are followed, whose it may be, and in which unit
its names count."""

from __future__ import annotations

import errno
import os
import stat
import warnings

from mq.disk.files import Files
from vsqs.listing import list_folder
from vsqs.names import UNITS_PER_SECOND, other_unit
from vsqs.turn import Turn


def make_folders(files: Files, path: str, sync: bool) -> None:
    """Make the folder and those above it that are missing, as durable as the messages will be."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    make_folders(files, parent, sync)
    try:
        files.make_folder(None, path, 0o777)
    except FileExistsError:
        if not os.path.isdir(path):
            raise NotADirectoryError(
                errno.ENOTDIR, "a queue is a folder, and this is not one", path
            ) from None
    if sync:
        fd = files.open_folder(None, os.path.realpath(parent))
        try:
            files.sync(fd)
        finally:
            files.close(fd)


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
    """Decide as the kernel does with fs.protected_symlinks: in a folder like /tmp, where everyone
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


def unit_in(files: Files, folder_fd: int) -> str:
    """Return the unit in which the names in a folder count, as far as it tells: by the newest id
    that publishers keep with it, or else by its names. Milliseconds where it does not tell."""
    kept = [unit for unit in UNITS_PER_SECOND if Turn(files, folder_fd, unit).newest() >= 0]
    if len(kept) == 1:
        return kept[0]
    names = list_folder(files, folder_fd).names
    are_micros = names and all(other_unit("ms", name.time) for name in names)
    return "us" if are_micros else "ms"
