"""Names that are no messages, and permissions that keep a message from its queue."""

from __future__ import annotations

import errno
import stat
import time
from dataclasses import dataclass

from mq.fsck.suspect import Kind, Place, move_to_corrupt
from mq.lifecycle import Folder
from mq.spool.folders import Spool
from mq.spool.message import Lost, hold

FILE_NEEDS = stat.S_IRUSR | stat.S_IWUSR
FOLDER_NEEDS = stat.S_IRWXU
_NS = 1_000_000_000


@dataclass(frozen=True)
class Foreign:
    """What no process of ours makes. `inode` tells it from what comes after it."""

    spool: Spool
    place: Place
    inode: int
    why: str
    kind: Kind = Kind.FOREIGN

    @property
    def path(self) -> str:
        return str(self.place)

    def look(self) -> str | None:
        return self.why if self.spool.inode(*self.place) == self.inode else None

    def mend(self) -> str | None:
        return move_to_corrupt(self.spool, self.place) if self.look() else None


@dataclass(frozen=True)
class WrongMode:
    """A file or folder that the root's owner cannot use; `needs` are the bits it must have."""

    spool: Spool
    place: Place
    needs: int
    owner: int
    kind: Kind = Kind.MODE

    @property
    def path(self) -> str:
        return str(self.place)

    def look(self) -> str | None:
        status = self.spool.status(*self.place)
        if status is None:
            return None
        if status.st_uid != self.owner:
            return f"belongs to user {status.st_uid}, the root to user {self.owner}"
        mode = stat.S_IMODE(status.st_mode)
        return None if mode & self.needs == self.needs else f"mode {mode:04o} shuts its owner out"

    def mend(self) -> str | None:
        before = self.spool.status(*self.place)
        if before is None:
            return None
        if before.st_uid != self.owner:
            raise PermissionError(errno.EPERM, f"chown it to user {self.owner}, as root")
        mode = stat.S_IMODE(before.st_mode) | self.needs
        self.spool.files.set_mode(self.spool.fd(self.place.folder), self.place.name, mode)
        if self.place.folder is Folder.DELAY and before.st_mtime_ns > before.st_ctime_ns:
            self._keep_stamp(before.st_mtime_ns)
        return f"mode {mode:04o}"

    def _keep_stamp(self, mtime_ns: int) -> None:
        """A change of mode sets ctime, and a stamp counts only if it is later than that."""
        held = hold(self.spool.files, self.spool.fd(Folder.DELAY), self.place.name)
        if not isinstance(held, Lost):
            with held:
                if held.status.st_mtime_ns == mtime_ns <= held.status.st_ctime_ns:
                    self.spool.files.stamp(held.fd, time.time_ns() + _NS)


@dataclass(frozen=True)
class DeadUpload:
    """A hidden file: a probe, or an upload where there are no unnamed files. Its process holds its
    lock while it lives."""

    spool: Spool
    place: Place
    inode: int
    settle_ns: int
    kind: Kind = Kind.UPLOAD

    @property
    def path(self) -> str:
        return str(self.place)

    def look(self) -> str | None:
        status = self.spool.status(*self.place)
        if status is None or status.st_ino != self.inode:
            return None
        # A young one is not locked to see: its process may just be about to do that, and would
        # take this for a sweep that discards it.
        if 0 <= time.time_ns() - status.st_ctime_ns < self.settle_ns:
            return _DEAD_UPLOAD
        held = hold(self.spool.files, self.spool.fd(self.place.folder), self.place.name)
        if isinstance(held, Lost):
            return None
        held.close()
        return _DEAD_UPLOAD

    def mend(self) -> str | None:
        held = hold(self.spool.files, self.spool.fd(self.place.folder), self.place.name)
        if isinstance(held, Lost):
            return None
        with held:
            name = self.spool.move_aside(
                self.place.folder, self.place.name, Folder.REMOVE, self.place.name
            )
        return None if name is None else f"moved to {Place(Folder.REMOVE, name)}, for the reaper"


_DEAD_UPLOAD = "a probe or an upload whose process died"
