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
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

from vsqs.folder import QueueFolder
from vsqs.foreign import is_foreign, is_of_one_file, open_message
from vsqs.names import LAST_TIME, NEW, READY, Name

_MODE = 0o666
"""The umask takes away from it, as for any file."""


class Unpublished(Enum):
    """Why a written message got no name, and has to be written again."""

    SWEPT = "another process took its publisher for dead"
    FULL = "others filled the queue meanwhile"


class NewFile(NamedTuple):
    """An empty `T.new`, open to be written."""

    name: Name
    fd: int
    inode: int


class TakenMessage(NamedTuple):
    """A message that belongs to this process until its expiry, open to be read."""

    name: Name
    fd: int


# Publish


def begin(folder: QueueFolder) -> NewFile:
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
                return NewFile(name, fd, os.fstat(fd).st_ino)
        except BaseException:
            folder.files.close(fd)
            raise
        folder.files.close(fd)
        discard(folder, name)


def finish(folder: QueueFolder, new: NewFile, capacity: int | None) -> Name | Unpublished:
    """Give a written message its final name: T, or a later one if a message that is not below T was
    published meanwhile. So a receiver that takes the oldest never sees an older one appear.

    If the last step raises OSError, the message is discarded as far as the disk allows. After an
    OSError of an earlier one `T.new` is left, for a sweep.
    """
    name = new.name
    with folder.turn.held():
        folder.refresh()
        folder.index.saw(folder.turn.newest())
        if inode_of(folder, name) != new.inode:
            # It was swept, or it is another publisher's by now, which must not lose it.
            return Unpublished.SWEPT
        if capacity is not None and folder.index.size >= capacity:
            discard(folder, name)
            return Unpublished.FULL
        return _give_final_name(folder, name, new.inode)


def discard(folder: QueueFolder, name: Name) -> None:
    """Unlink a file if it exists."""
    try:
        folder.files.unlink(folder.fd, str(name))
    except FileNotFoundError:
        pass
    folder.changed(name, None)


def _give_final_name(folder: QueueFolder, name: Name, inode: int) -> Name | Unpublished:
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
            move(folder, name, ready)
        except FileNotFoundError:
            if inode_of(folder, ready) != inode:  # Otherwise a network has lost the reply.
                return Unpublished.SWEPT
            folder.changed(name, ready)
        except FileExistsError:
            folder.index.add(ready)
            continue
        except OSError:
            with suppress(OSError):
                discard(folder, name)
            raise
        return ready


def _rename_to_later(folder: QueueFolder, name: Name) -> Name | None:
    """Rename to a later time. Returns None if the file was swept."""
    while True:
        later = Name(folder.next_time(), NEW)
        try:
            move(folder, name, later)
        except FileNotFoundError:
            return None
        except FileExistsError:
            folder.index.add(later)
            continue
        folder.refresh()
        return later


# Receive


def take(folder: QueueFolder, visibility_seconds: float) -> TakenMessage | None:
    """Requeue what is expired, then take the oldest ready message. Returns None if there is
    none."""
    while True:
        folder.refresh()
        if _requeue_expired(folder):
            continue
        folder.look_for_older()
        while (oldest := folder.index.oldest()) is not None:
            taken = _consume(folder, oldest, visibility_seconds)
            if taken is not None:
                return taken
            if folder.index.oldest() != oldest or inode_of(folder, oldest) is None:
                folder.index.discard(oldest)
                break  # Another receiver was faster, so the index is behind.
            folder.index.leave(oldest)
        else:
            return None


def read(folder: QueueFolder, fd: int) -> bytes:
    """Return the whole body. No lock is needed, because nobody writes to it any more."""
    return folder.files.read(fd, os.fstat(fd).st_size)


def look_at(folder: QueueFolder, name: Name) -> bytes | None:
    """Return the body of a message, without taking the message, or None if it is gone."""
    fd = open_message(folder, name)
    if fd is None:
        return None
    try:
        return read(folder, fd)
    finally:
        folder.files.close(fd)


def _requeue_expired(folder: QueueFolder) -> bool:
    """Requeue every expired message. Returns False if there was none."""
    found = False
    while True:
        name = folder.index.first_to_expire()
        if name is None or int(name.state) > folder.now():
            return found
        try:
            if is_foreign(folder, name):
                folder.index.leave(name)
                continue
            move(folder, name, Name(name.time, READY))
            found = True
        except FileNotFoundError:
            found = True
        except FileExistsError:
            _drop_second_name(folder, name)
            continue
        except OSError as error:
            if not is_of_one_file(folder, error):
                raise
            folder.index.leave(name)
            continue
        folder.index.discard(name)


def _drop_second_name(folder: QueueFolder, name: Name) -> None:
    """Drop one of two names of a message that is ready and consumed at once. A crash left two names
    of one file where a rename is a link and an unlink: one is unlinked. Two files are left to a
    person, or to `delete`."""
    inode = inode_of(folder, name)
    if inode is not None and inode == inode_of(folder, Name(name.time, READY)):
        discard(folder, name)
    else:
        folder.index.leave(name)


def _consume(folder: QueueFolder, ready: Name, visibility_seconds: float) -> TakenMessage | None:
    """Take a ready message. Returns None for a lost race, for a foreign file, and for one that this
    process may not take."""
    fd = open_message(folder, ready)
    if fd is None:
        return None
    try:
        units = min(visibility_seconds * folder.units_per_second, LAST_TIME)
        consumed = hide_until(folder, ready, min(folder.now() + round(units), LAST_TIME))
        if inode_of(folder, consumed) == os.fstat(fd).st_ino:
            return TakenMessage(consumed, fd)
        # It was deleted since, and perhaps another message of that time was published.
        stale, fd = fd, None
        folder.files.close(stale)
        fd = open_message(folder, consumed)
        return None if fd is None else TakenMessage(consumed, fd)
    except BaseException as error:
        if fd is not None:
            folder.files.close(fd)
        if isinstance(error, FileNotFoundError) or (
            isinstance(error, OSError) and is_of_one_file(folder, error)
        ):
            return None
        raise


def hide_until(folder: QueueFolder, name: Name, expiry: int) -> Name:
    """Rename a message to this expiry, or to the next that is free. Raises FileNotFoundError."""
    while True:
        hidden = Name(name.time, str(expiry))
        try:
            move(folder, name, hidden)
        except FileExistsError:
            expiry += 1
            continue
        return hidden


# Delete


def delete(folder: QueueFolder, time: int) -> bool:
    """Unlink the message of that time, ready or consumed, until there is none. Returns False if
    there was none. A `T.new` is not a message yet but another publisher's file, and must stay."""
    found, foreign = False, set[Name]()
    while True:
        folder.refresh()
        names = {*folder.index.published_names(time)} - foreign
        if not names and not found:
            names = {*folder.look_for(time)} - foreign
        if not names:
            return found
        for name in names:
            try:
                if is_foreign(folder, name):
                    foreign.add(name)
                    continue
                folder.files.unlink(folder.fd, str(name))
                found = True
            except FileNotFoundError:
                # It was requeued or received in between, so its other name is looked for.
                pass
            folder.changed(name, None)


# Steps


def move(folder: QueueFolder, old: Name, new: Name) -> None:
    folder.files.rename(folder.fd, str(old), folder.fd, str(new))
    folder.changed(old, new)


def inode_of(folder: QueueFolder, name: Name) -> int | None:
    """Return the inode number behind a name, or None if there is none."""
    try:
        return os.stat(str(name), dir_fd=folder.fd, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return None
