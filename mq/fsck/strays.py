"""Names that do not belong to messages, and what keeps messages from their queue: permissions, and
folders that cannot be read."""

from __future__ import annotations

import errno
import os
import stat
import time
from dataclasses import dataclass

from mq.config import SECOND_NS
from mq.fsck.suspect import FindingKind, PlacedSuspect, SuspectPlace, move_to_corrupt
from mq.lifecycle import Folder
from mq.spool.message.held import Lost, hold_in

FILE_NEEDS = stat.S_IRUSR | stat.S_IWUSR
FOLDER_NEEDS = stat.S_IRWXU

_DEAD_UPLOAD = "a probe or an upload whose process died"


@dataclass(frozen=True)
class Foreign(PlacedSuspect):
    """A file that no process of MQ makes. `inode` tells it from what comes after it."""

    inode: int
    why: str
    kind = FindingKind.FOREIGN

    def look(self) -> str | None:
        return self.why if self.spool.inode(*self.place) == self.inode else None

    def mend(self) -> str | None:
        return move_to_corrupt(self.spool, self.place) if self.look() else None


@dataclass(frozen=True)
class UnreadableQueue(PlacedSuspect):
    """The folder of a queue that the file system cannot read. What is in it was not looked at."""

    why: str
    kind = FindingKind.DAMAGED

    def look(self) -> str | None:
        return f"the folder cannot be read: {self.why}"

    def mend(self) -> str | None:
        raise OSError(0, "check the file system")


@dataclass(frozen=True)
class WrongMode(PlacedSuspect):
    """A file or folder that the root's owner cannot use. `needs` are the bits that it must have."""

    needs: int
    owner: int
    kind = FindingKind.MODE

    def look(self) -> str | None:
        status = self.spool.status(*self.place)
        return None if status is None else why_shut_out(status, self.needs, self.owner)

    def mend(self) -> str | None:
        before = self.spool.status(*self.place)
        if before is None:
            return None
        refuse_foreign(before, self.owner)
        mode = stat.S_IMODE(before.st_mode) | self.needs
        fd, bare, _keeper = self.spool.at(*self.place)
        self.spool.files.set_mode(fd, bare, mode)
        if self.place.folder is Folder.DELAY and before.st_mtime_ns > before.st_ctime_ns:
            self._keep_stamp(before.st_mtime_ns)
        return f"mode {mode:04o}"

    def _keep_stamp(self, mtime_ns: int) -> None:
        """Set the stamp to a second from now if it no longer counts. A change of mode sets ctime,
        and a stamp counts only if it is later than that; the message was due."""
        held = hold_in(self.spool, Folder.DELAY, self.place.name)
        if not isinstance(held, Lost):
            with held:
                if held.status.st_mtime_ns == mtime_ns <= held.status.st_ctime_ns:
                    self.spool.files.stamp(held.fd, time.time_ns() + SECOND_NS)


@dataclass(frozen=True)
class DeadUpload(PlacedSuspect):
    """A hidden file: a probe, or an upload where there are no unnamed files. Its process holds its
    lock while it lives."""

    inode: int
    settle_ns: int
    kind = FindingKind.UPLOAD

    def look(self) -> str | None:
        status = self.spool.status(*self.place)
        if status is None or status.st_ino != self.inode:
            return None
        # The lock of a young file is not tried: its process may be about to take it, and would take
        # this try for a sweep that discards the file.
        if 0 <= time.time_ns() - status.st_ctime_ns < self.settle_ns:
            return _DEAD_UPLOAD
        held = self.hold()
        if isinstance(held, Lost):
            return None
        held.close()
        return _DEAD_UPLOAD

    def mend(self) -> str | None:
        held = self.hold()
        if isinstance(held, Lost):
            return None
        with held:
            name = self.spool.move_aside(
                self.place.folder, self.place.name, Folder.REMOVE, self.place.name
            )
        return (
            None
            if name is None
            else f"moved to {SuspectPlace(Folder.REMOVE, name)}, for the reaper"
        )


def why_shut_out(status: os.stat_result, needs: int, owner: int) -> str | None:
    """Return why the root's owner cannot use a file or folder that must have the bits `needs`, or
    None if they can."""
    if status.st_uid != owner:
        return f"belongs to user {status.st_uid}, the root to user {owner}"
    mode = stat.S_IMODE(status.st_mode)
    return None if mode & needs == needs else f"mode {mode:04o} shuts its owner out"


def refuse_foreign(status: os.stat_result, owner: int) -> None:
    """Raise PermissionError for what belongs to another user than the root."""
    if status.st_uid != owner:
        raise PermissionError(errno.EPERM, f"chown it to user {owner}, as root")


def kind_of(status: os.stat_result) -> str:
    """Return what a name leads to, in words."""
    if stat.S_ISLNK(status.st_mode):
        return "a link"
    if stat.S_ISREG(status.st_mode):
        return "a file"
    return "a folder" if stat.S_ISDIR(status.st_mode) else "a special file"
