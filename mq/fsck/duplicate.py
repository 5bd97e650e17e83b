"""Messages with two names."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from enum import Enum

from mq.disk.files import Files
from mq.fsck.suspect import FindingKind, PlacedSuspect, SuspectPlace, move_to_corrupt
from mq.lifecycle import Folder
from mq.spool.disk_errors import NO_MESSAGE
from mq.spool.message.checksum import measure
from mq.spool.message.held import Held, Lost, seal_of
from mq.spool.message.seal import published_ns

WAY = (Folder.NEW, Folder.QUEUES, Folder.DELAY, Folder.REMOVE)


def step_of(place: SuspectPlace) -> int:
    """Return how far on its way a message is at a place."""
    return WAY.index(Folder.REMOVE if place.is_taken else place.folder)


class Likeness(Enum):
    """What the second name leads to."""

    SAME_FILE = "the same file"
    SAME_BODY = "a file with the same body"
    OTHER_BODY = "a file with another body"


def _is_same(files: Files, fd: int, held: Held) -> bool:
    """Return whether two files have the same bytes. They are read only if they are equally long."""
    if os.fstat(fd).st_size != held.status.st_size:
        return False
    return measure(files, fd) == measure(files, held.fd)


def _are_two(files: Files, fd: int, held: Held) -> bool:
    """Return whether the seals of two files say that they were published at two times."""
    seal, other = seal_of(files, fd), held.seal
    return bool(seal and other and seal.published_ns != other.published_ns)


@dataclass(frozen=True)
class Duplicate(PlacedSuspect):
    """Two names for one message. A crash between link and unlink leaves two names of one file; a
    copy or a restored backup leaves two files. `kept` is the one further on its way. It stays, and
    the one at `place` is set aside, so a removed message does not return.

    A message with another body than the removed one, however, was never removed: it stays, and the
    removed one makes room. One with the same body that was published at another time was not
    removed either, and nothing is wrong: it was moved here. Files of two queues are one message
    only if it was published at one time: the queues may have the same id.
    """

    kept: SuspectPlace
    kind = FindingKind.DUPLICATE

    def look(self) -> str | None:
        # Look without the lock, which would make a receiver skip the message: most have only moved
        # on.
        if not self.spool.exists(*self.kept):
            return None
        held = self.hold()
        if isinstance(held, Lost):
            return None
        with held:
            likeness = self._compare(held)
        return None if likeness is None else f"{self.kept} is {likeness.value}"

    def mend(self) -> str | None:
        held = self.hold()
        if isinstance(held, Lost):
            return None
        with held:
            likeness = self._compare(held)
            if likeness is None:
                return None
            if likeness is Likeness.OTHER_BODY and self.kept.folder is Folder.REMOVE:
                return self._make_room()
            return move_to_corrupt(self.spool, self.place)

    def _compare(self, held: Held) -> Likeness | None:
        """Compare the two. Returns None unless both names exist at one instant: the first is looked
        at once more. What is not a file in `remove` is left to the reaper."""
        files = self.spool.files
        # Another host may have moved it: then this one opens it by the name that it has cached.
        if files.is_of_network and not self.spool.exists(*self.kept):
            return None
        try:
            folder_fd, bare, _keeper = self.spool.at(*self.kept)
            fd = files.open_message(folder_fd, bare)
        except OSError as error:
            if error.errno in NO_MESSAGE:
                return None
            raise
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            if self.spool.inode(*self.place) != held.status.st_ino:
                return None
            if files.inode(fd) == held.status.st_ino:
                return None if self._is_in_batch or self.kept.is_taken else Likeness.SAME_FILE
            return self._likeness(fd, held)
        finally:
            files.close(fd)

    def _likeness(self, fd: int, held: Held) -> Likeness | None:
        files = self.spool.files
        is_same = _is_same(files, fd, held)
        if self.place.message != self.kept.message:
            is_one = is_same and self._is_of_one_time(fd, held)
            return Likeness.SAME_BODY if is_one else None
        is_removed = self.kept.is_taken or self.kept.folder is Folder.REMOVE
        if is_same and is_removed and _are_two(files, fd, held):
            return None
        if not is_same and self.kept.is_taken:
            return None  # It is a finding once what was taken is in `remove`.
        return Likeness.SAME_BODY if is_same else Likeness.OTHER_BODY

    @property
    def _is_in_batch(self) -> bool:
        """Whether the message is in a published batch, which unlinks names that are left over when
        it goes on."""
        return self.place.folder is Folder.NEW and "/" in self.place.name

    def _is_of_one_time(self, fd: int, held: Held) -> bool:
        message_id = self.kept.message.rpartition(":")[2]
        kept_ns = published_ns(seal_of(self.spool.files, fd), os.fstat(fd), message_id)
        return kept_ns == held.published_ns(message_id)

    def _make_room(self) -> str:
        """Give the removed file the next free name, as a second removal would."""
        number = 2
        while True:
            name = f"{self.kept.name}~{number}"
            try:
                self.spool.rename_within(Folder.REMOVE, self.kept.name, name)
            except FileExistsError:
                number += 1
            else:
                return f"{self.kept}, another message, was renamed to {name}"
