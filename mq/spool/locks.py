"""The lock of a name, and a check that locks work on a root, as far as one machine can tell.

Everything that several processes do to one root rests on three kinds of locks: `flock` of a file,
which a process takes before it touches a message; `flock` of a folder, for queues and sets; and the
lock of one byte of the file `format`, for names that lead to no file: producers' own ids, changes
of settings, and whatever else a gateway locks. Receives lock other bytes of it as a hint to each
other (`mq.store.reservations`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

from mq.disk.byte_locks import offset_of
from mq.disk.files import Files
from mq.errors import ExitCode, StartRefused
from mq.lifecycle import Folder
from mq.spool.root_format import FORMAT_FILE
from mq.spool.spool import Spool


def lock_names(spool: Spool, names: Iterable[str]) -> int | None:
    """Lock names against all other processes. Returns the descriptor that holds the locks until it
    is closed, or None, with none of them held, if another process holds one. Raises OSError.

    Two names may share a byte (`offset_of`): then one of them waits for the other.
    """
    try:
        return lock_names_in(spool.files, str(spool.root), names)
    except FileNotFoundError:
        # FileNotFoundError would mean that a queue or a message is gone.
        raise OSError(
            errno.ENOLCK,
            f"{_format_of(spool)} is missing; `mqctl --root {spool.root} fsck --repair` writes it",
        ) from None


def lock_names_in(files: Files, root: str, names: Iterable[str]) -> int | None:
    """Do what `lock_names` does, for a process that has no spool; `root` is any path of the root.
    Raises FileNotFoundError if the root has no file `format`, and OSError."""
    fd = files.open_to_lock(f"{root}/{FORMAT_FILE}")
    # They are locked in order, so that of two processes which want the same ones the first gets all
    # of them.
    offsets = sorted({offset_of(name) for name in names})
    are_locked = False
    try:
        are_locked = all(files.lock_byte(fd, offset) for offset in offsets)
    finally:
        if not are_locked:
            files.close(fd)
    return fd if are_locked else None


def _format_of(spool: Spool) -> str:
    return f"{spool.root}/{FORMAT_FILE}"


class _Kind(NamedTuple):
    """A kind of lock: how to open a descriptor for it, how to share it (or take it, if it cannot be
    shared), and how to take it exclusively."""

    name: str
    open: Callable[[], int]
    take: Callable[[int], bool]
    take_alone: Callable[[int], bool]


def require_locks(spool: Spool) -> None:
    """Take each kind of lock, and try it again on another descriptor, which must find it taken. A
    lock that another process holds works. Raises StartRefused, and OSError."""
    for kind in _kinds(spool):
        try:
            fault = _fault_of(kind, spool.files)
        except FileNotFoundError:
            continue  # A visitor can do without the format file.
        if fault is not None:
            raise StartRefused(
                ExitCode.SYSTEM,
                f"root {spool.root}: the lock of {kind.name} does not work on this file system: "
                f"{fault}; mount it so that it does, or choose a root on another one",
            )


def _kinds(spool: Spool) -> Iterator[_Kind]:
    files, path = spool.files, _format_of(spool)
    offset = offset_of(os.urandom(8).hex())

    def lock_byte(fd: int) -> bool:
        return files.lock_byte(fd, offset)

    def open_root() -> int:
        return files.open_folder(None, str(spool.root))

    def open_format() -> int:
        """Open the format file as a message is opened: not to write."""
        return files.open_message(spool.fd(Folder.NEW), f"../{FORMAT_FILE}")

    yield _Kind("a folder (flock)", open_root, files.lock_shared, files.lock)
    yield _Kind("a file (flock)", open_format, files.lock_shared, files.lock)
    yield _Kind("a byte (F_OFD_SETLK)", lambda: files.open_to_lock(path), lock_byte, lock_byte)


def _fault_of(kind: _Kind, files: Files) -> str | None:
    """Return what is wrong with a kind of lock, or None. It must not be granted exclusively while
    another descriptor holds or shares it. Servers that start together share it, so none takes the
    lock of another one for a fault."""
    with ExitStack() as opened:
        fds = []
        for _ in range(2):
            fds.append(kind.open())
            opened.callback(files.close, fds[-1])
        try:
            are_both = kind.take(fds[0]) and kind.take_alone(fds[1])
        except OSError as error:
            return error.strerror or str(error)
    return "two descriptors have it at once" if are_both else None
