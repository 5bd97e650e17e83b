"""Listing: the names in a queue's folder as of one moment."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from typing import NamedTuple

from mq.disk.files import Files
from mq.disk.listing import list_at_once
from mq.disk.status import may_stay
from vsqs.names import Name, parse_name

_DT_UNKNOWN, _DT_REG = 0, 8


class FolderNames(NamedTuple):
    """The names in a folder. `quiet_mtime_ns` is the folder's mtime if the folder changed neither
    just before nor during the listing, so that a later change shows in it; otherwise None."""

    names: list[Name]
    quiet_mtime_ns: int | None


def list_folder(
    files: Files, fd: int, is_wanted: Callable[[bytes], bool] = lambda _: True
) -> FolderNames:
    """Return the messages, in any state, whose file names satisfy `is_wanted`."""
    started_ns = time.time_ns()
    folder = files.open_folder(fd, ".")
    try:
        mtime_ns = os.fstat(folder).st_mtime_ns
        names = [
            name
            for text, kind in list_at_once(folder)
            if is_wanted(text)
            and (name := parse_name(os.fsdecode(text))) is not None
            and (kind == _DT_REG or (kind == _DT_UNKNOWN and _is_file(folder, text)))
        ]
        is_quiet = not may_stay(mtime_ns, started_ns)
        is_quiet = is_quiet and os.fstat(folder).st_mtime_ns == mtime_ns
    finally:
        files.close(folder)
    return FolderNames(names, mtime_ns if is_quiet else None)


def _is_file(folder_fd: int, name: bytes) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
