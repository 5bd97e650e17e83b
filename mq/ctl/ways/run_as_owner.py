"""Work on a root as the user who owns it, so that the user root leaves no file there that servers
cannot read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def as_owner(root: Path) -> Iterator[None]:
    """Let the user root act as the owner of the folders, until the end of the block. New files and
    folders get the mode of the root; what is in it may be shut to more users (`Spool.mode`)."""
    try:
        status = os.stat(root)
    except OSError:
        # The code that opens the root says what is wrong with it.
        yield
        return
    os.umask(0o777 & ~status.st_mode)
    if os.geteuid() != 0 or status.st_uid == 0:
        yield
        return
    group = os.getegid()
    os.setegid(status.st_gid)
    os.seteuid(status.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
