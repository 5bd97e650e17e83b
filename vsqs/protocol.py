"""The protocol, step by step: what each operation does in the queue's folder.

    (nothing) -> T.new -> T      publish
    T -> T.EXPIRY                receive
    T.EXPIRY -> T                requeue, when EXPIRY is over
    any -> (nothing)             delete

Every step is one file call that is atomic and replaces nothing. A step that loses a race finds
the file gone; a crash between two steps leaves the file in the state before. All are called with
the folder's lock held, so that the threads of a process take turns; nothing is synced here.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

from vsqs.folder import Folder
from vsqs.names import NEW, READY, Name

_MODE = 0o666
"""Less the umask, as for any file."""


class Unpublished(Enum):
    """Why a written message got no name, and has to be written again."""

    SWEPT = "somebody took its publisher for dead"
    FULL = "others filled the queue meanwhile"


class Draft(NamedTuple):
    """An empty `T.new`, open to be written."""

    name: Name
    fd: int
    inode: int


class Taken(NamedTuple):
    """A message that is ours until its expiry, open to be read."""

    name: Name
    fd: int


# Publish


def begin(folder: Folder) -> Draft:
    """Make `T.new`, where no other message has that T."""
    index = folder.index
    while True:
        name = Name(folder.next_time(), NEW)
        try:
            fd = folder.files.create(folder.fd, str(name), _MODE)
        except FileExistsError:
            index.add(name)
            continue
        folder.changed(None, name)
        try:
            folder.refresh()
            if not index.published_names(name.time):
                return Draft(name, fd, os.fstat(fd).st_ino)
        except BaseException:
            folder.files.close(fd)
            raise
        folder.files.close(fd)
        discard(folder, name)


def finish(folder: Folder, draft: Draft, capacity: int | None) -> Name | Unpublished:
    """Give a written message its final name: T or, if one that is not below T was published
    meanwhile, a later one. So whoever takes the oldest never sees an older one appear.

    If that raises OSError the message is discarded as far as the disk allows.
    """
    name = draft.name
    with folder.turn.held():
        folder.refresh()
        folder.index.newest = max(folder.index.newest, folder.turn.newest())
        if _inode(folder, name) != draft.inode:
            # Swept; or another publisher's by now, who must not lose it to us.
            return Unpublished.SWEPT
        if capacity is not None and folder.index.size >= capacity:
            discard(folder, name)
            return Unpublished.FULL
        return _give_final_name(folder, name)


def discard(folder: Folder, name: Name) -> None:
    """Unlink it if it is there."""
    try:
        folder.files.unlink(folder.fd, str(name))
    except FileNotFoundError:
        pass
    folder.changed(name, None)


def _give_final_name(folder: Folder, name: Name) -> Name | Unpublished:
    while True:
        if name.time <= folder.index.newest:
            later = _rename_to_later(folder, name)
            if later is None:
                return Unpublished.SWEPT
            name = later
            continue
        folder.wait_for(name.time)
        ready = Name(name.time, READY)
        try:
            folder.turn.give(name.time)
            _move(folder, name, ready)
        except FileNotFoundError:
            return Unpublished.SWEPT
        except FileExistsError:
            folder.index.add(ready)
            continue
        except OSError:
            with suppress(OSError):
                discard(folder, name)
            raise
        return ready


def _rename_to_later(folder: Folder, name: Name) -> Name | None:
    """None if it was swept."""
    while True:
        later = Name(folder.next_time(), NEW)
        try:
            _move(folder, name, later)
        except FileNotFoundError:
            return None
        except FileExistsError:
            folder.index.add(later)
            continue
        folder.refresh()
        return later


# Receive


def take(folder: Folder, visibility_seconds: float) -> Taken | None:
    """Requeue what is expired, then take the oldest ready message; None if there is none."""
    while True:
        folder.refresh()
        if _requeue_expired(folder):
            continue
        oldest = folder.oldest()
        if oldest is None:
            return None
        taken = _consume(folder, oldest, visibility_seconds)
        if taken is not None:
            return taken
        folder.index.discard(oldest)


def seconds_to_expiry(folder: Folder) -> float | None:
    """Until the first consumed message is to be requeued; None if there is none."""
    first = folder.index.first_to_expire()
    return None if first is None else (int(first.state) - folder.now()) / folder.units_per_second


def read(folder: Folder, fd: int) -> bytes:
    """The whole body. No lock is needed: nobody writes to it any more."""
    return folder.files.read(fd, os.fstat(fd).st_size)


def look_at(folder: Folder, name: Name) -> bytes | None:
    """The body of a message that nobody takes for that; None if it is gone."""
    fd = _open_message(folder, name)
    if fd is None:
        return None
    try:
        return read(folder, fd)
    finally:
        folder.files.close(fd)


def _requeue_expired(folder: Folder) -> bool:
    """Requeue every expired message. False if there was none."""
    found = False
    while True:
        name = folder.index.first_to_expire()
        if name is None or int(name.state) > folder.now():
            return found
        try:
            if _is_message(folder, name):
                _move(folder, name, Name(name.time, READY))
                found = True
        except FileNotFoundError:
            found = True
        except FileExistsError:
            _drop_second_name(folder, name)
            continue
        folder.index.discard(name)


def _drop_second_name(folder: Folder, name: Name) -> None:
    """The message is ready and consumed at once. Two names of one file were left by a crash where
    a rename is a link and an unlink: one goes. Two files are left for a person, or for `delete`."""
    inode = _inode(folder, name)
    if inode is not None and inode == _inode(folder, Name(name.time, READY)):
        discard(folder, name)
    else:
        folder.index.leave(name)


def _consume(folder: Folder, ready: Name, visibility_seconds: float) -> Taken | None:
    """None for a lost race, and for what is no file."""
    fd = _open_message(folder, ready)
    if fd is None:
        return None
    try:
        consumed = _rename_to_consumed(folder, ready, visibility_seconds)
        if _inode(folder, consumed) == os.fstat(fd).st_ino:
            return Taken(consumed, fd)
        # Deleted since, and perhaps another message of that time was published.
        folder.files.close(fd)
        fd = _open_message(folder, consumed)
        return None if fd is None else Taken(consumed, fd)
    except BaseException as error:
        if fd is not None:
            folder.files.close(fd)
        if isinstance(error, FileNotFoundError):
            return None
        raise


def _rename_to_consumed(folder: Folder, ready: Name, visibility_seconds: float) -> Name:
    expiry = folder.now() + round(visibility_seconds * folder.units_per_second)
    while True:
        consumed = Name(ready.time, str(expiry))
        try:
            _move(folder, ready, consumed)
        except FileExistsError:
            expiry += 1
            continue
        return consumed


def _open_message(folder: Folder, name: Name) -> int | None:
    """None if it is not there, or is no file."""
    if not _is_message(folder, name):
        return None
    try:
        return folder.files.open_message(folder.fd, str(name))
    except FileNotFoundError:
        return None


# Delete


def delete(folder: Folder, time: int) -> bool:
    """Unlink the message of that time, ready or consumed, until there is none. False if there was
    none. A `T.new` is no message yet, and another publisher's: that must not be taken away."""
    found = False
    while True:
        folder.refresh()
        names = folder.index.published_names(time)
        if not names and (found or not folder.rescan()):
            return found
        for name in names:
            try:
                if _is_message(folder, name):
                    folder.files.unlink(folder.fd, str(name))
                    found = True
            except FileNotFoundError:
                # Requeued or received in between: its other name is looked for.
                pass
            folder.changed(name, None)


def _move(folder: Folder, old: Name, new: Name) -> None:
    folder.files.rename(folder.fd, str(old), folder.fd, str(new))
    folder.changed(old, new)


def _inode(folder: Folder, name: Name) -> int | None:
    try:
        return os.stat(str(name), dir_fd=folder.fd, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return None


def _is_message(folder: Folder, name: Name) -> bool:
    """Whether it is there, and is a file: folders and links are foreign, whatever their name."""
    try:
        status = os.stat(str(name), dir_fd=folder.fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode)
