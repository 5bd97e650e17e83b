"""Tell messages from all else that may lie in a queue's folder, so that no message suffers from
it."""

from __future__ import annotations

import errno
import os
import stat

from vsqs.folder import QueueFolder
from vsqs.names import Name

MAX_BODY_BYTES = 1 << 30
"""A message is received as a whole, in memory. A file that is longer is foreign."""

_NO_FILE = {errno.ENOENT, errno.ELOOP, errno.ENXIO}
"""Errors of opening what is gone, or was replaced by a link or a socket."""

_OF_ONE_FILE = {errno.EACCES, errno.EPERM, errno.EBUSY}
"""It may not be read, it is immutable, or something is mounted on it."""


def is_message(folder: QueueFolder, name: Name) -> bool:
    """Return whether a name leads to a file that can be a message. Folders and links are foreign,
    whatever their names."""
    try:
        return not is_foreign(folder, name)
    except FileNotFoundError:
        return False


def is_foreign(folder: QueueFolder, name: Name) -> bool:
    """Return whether what is there can be no message. Raises FileNotFoundError if nothing is."""
    return not _can_be_message(os.stat(str(name), dir_fd=folder.fd, follow_symlinks=False))


def open_message(folder: QueueFolder, name: Name) -> int | None:
    """Open a message. Returns None if there is none that this process may read."""
    if not is_message(folder, name):
        return None
    try:
        fd = folder.files.open_message(folder.fd, str(name))
    except OSError as error:
        if error.errno in _NO_FILE or is_of_one_file(folder, error):
            return None
        raise
    is_one = False  # It may have been replaced in between.
    try:
        is_one = _can_be_message(os.fstat(fd))
    finally:
        if not is_one:
            folder.files.close(fd)
    return fd if is_one else None


def is_of_one_file(folder: QueueFolder, error: OSError) -> bool:
    """Return whether an error concerns one file alone. If nothing in the folder may be changed, it
    does not."""
    mode = os.R_OK | os.W_OK | os.X_OK
    return error.errno in _OF_ONE_FILE and os.access(
        ".", mode, dir_fd=folder.fd, effective_ids=True
    )


def _can_be_message(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_size <= MAX_BODY_BYTES
