"""The file `format` of a root says which versions may work on it.

Every version reads `mq 1`. A root of `mq 2` also has messages with long seals: with properties, or
with the time of their first receive. A version that does not know these would take them for
messages without a seal. So before the first one is written the root becomes `mq 2`, which that
version refuses to open.

The file is never replaced, because its bytes are locks: one byte of it is overwritten in place.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from mq.disk.files import Files
from mq.errors import ExitCode, StartRefused, StoreUnavailable
from mq.lifecycle import FIXED_FOLDERS

FORMAT_FILE = "format"
"""A file beside the folders: its text is the format, its bytes are locks (`mq.spool.locks`)."""

FORMAT = "mq 1"
"""The format of a new root."""

LONG_SEALS = "mq 2"
"""The format of a root that may have long seals."""

_KNOWN = (FORMAT, LONG_SEALS)

_READ_BYTES = 80
"""More than any format has."""


def read_format(root: Path) -> str | None:
    """Return what the file says, or None if there is none; an empty text if it is blank. Raises
    OSError."""
    path = root / FORMAT_FILE
    try:
        # Without O_NONBLOCK a FIFO of that name would keep the process waiting for ever.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        # A FIFO without a writer would read as blank.
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", str(path))
        return os.read(fd, _READ_BYTES).decode(errors="replace").strip("\0 \t\r\n")
    finally:
        os.close(fd)


def find_unknown_format(root: Path) -> str | None:
    """Return why this version cannot work on the root, or None if it can. Raises OSError."""
    found = read_format(root)
    if found is None or found in _KNOWN:
        return None
    if not found:
        return (
            f"{root / FORMAT_FILE} is blank: a copy was cut off, or the disk has lost what it "
            f"said; mqctl --root {root} fsck --repair writes it again"
        )
    return (
        f"{root / FORMAT_FILE} says {found!r}, this server knows {FORMAT!r} and {LONG_SEALS!r}; "
        "use the version of MQ that wrote it"
    )


def refuse_unknown_format(root: Path) -> None:
    """Raise StartRefused if this version does not know the root's format."""
    why = find_unknown_format(root)
    if why is not None:
        raise StartRefused(ExitCode.FORMAT, f"root {root}: {why}")


def format_without_file(root: Path) -> str:
    """Return what the file must say of a root that has none. One that has anything in its folders
    is not new: it has lost the file, and may have long seals. Raises OSError."""
    return LONG_SEALS if any(map(_has_any, (root / each for each in FIXED_FOLDERS))) else FORMAT


def _has_any(folder: Path) -> bool:
    with os.scandir(folder) as names:
        return any(True for _ in names)


def write_format(root: Path, files: Files, text: str) -> None:
    """Write the format file if there is none. Two servers may both try. Raises OSError."""
    write_once(root, files, FORMAT_FILE, f"{text}\n".encode())


def write_once(root: Path, files: Files, name: str, text: bytes) -> bool:
    """Write a file beside the folders of a root, whole or not at all, unless there is one of that
    name: then this returns False. Either is durable on return. Raises OSError."""
    root_fd = files.open_folder(None, str(root))
    try:
        fd = files.open_unnamed(root_fd, 0o644)
        is_new = True
        try:
            files.write(fd, text)
            files.sync(fd)
            files.link(fd, root_fd, name)
        except FileExistsError:
            is_new = False
        finally:
            files.close(fd)
        files.sync(root_fd)
    finally:
        files.close(root_fd)
    return is_new


def fill_format(root: Path, files: Files) -> None:
    """Let the file say `mq 2`, durably, whether it is blank or says `mq 1`: a root of `mq 2` may
    have all that one of `mq 1` has. Raises OSError."""
    fd = files.open_to_lock(str(root / FORMAT_FILE))
    try:
        # In place, because its bytes are locks. A disk may have left zeros there.
        length = min(os.fstat(fd).st_size, _READ_BYTES)
        files.write(fd, f"{LONG_SEALS}\n".encode().ljust(length, b"\n"))
        files.sync(fd)
    finally:
        files.close(fd)


def raise_format(root: Path, files: Files) -> None:
    """Make the root `mq 2`, durably; only the digit changes. The digit is written even if it is
    there already: a process that was killed may have written it without a sync. A format that this
    version does not know stays, and raises StoreUnavailable. Raises OSError."""
    if (why := find_unknown_format(root)) is not None:
        raise StoreUnavailable(why)
    try:
        fill_format(root, files)
    except FileNotFoundError:
        write_format(root, files, LONG_SEALS)
        fill_format(root, files)  # Another process may have written `mq 1` first.
