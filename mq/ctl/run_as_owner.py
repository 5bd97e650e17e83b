"""Work on a root as the user who owns it, so that root leaves no file there that servers cannot
read."""

from __future__ import annotations

import os
from pathlib import Path


def become_owner(root: Path) -> None:
    """Let root act as the owner of the folders, and new files and folders get the mode that the
    root has; what is in it may be shut to more (`Spool.mode`)."""
    try:
        status = os.stat(root)
    except OSError:
        # The code that opens it says what is wrong with it.
        return
    os.umask(0o777 & ~status.st_mode)
    if os.geteuid() == 0 and status.st_uid != 0:
        os.setegid(status.st_gid)
        os.seteuid(status.st_uid)
