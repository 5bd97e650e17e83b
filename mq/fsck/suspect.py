"""What every check finds, and what it can be asked."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from mq.disk.files import HIDDEN
from mq.lifecycle import Folder
from mq.spool.message.held import Held, Lost, hold_in
from mq.spool.spool import Spool

SETTLE_SECONDS = 2.0
"""After this time a check looks again at what may be a move, deletion or upload under way."""

_MAX_CORRUPT_NAME_BYTES = 240
"""At most this many of the 255 bytes that a name may have."""


UNREADABLE = frozenset({errno.EIO, errno.EUCLEAN, errno.EBADMSG})
"""Errors of a file that the disk or the file system cannot read. It is one finding, and keeps no
other file from being checked."""


class FindingKind(StrEnum):
    """The kinds of findings, in the order in which suspects that had to settle are mended: one can
    explain the next."""

    MISSING = "missing"
    FORMAT = "format"
    MODE = "mode"
    FOREIGN = "foreign"
    DAMAGED = "damaged"
    SEAL = "seal"
    SETTINGS = "settings"
    DELETION = "deletion"
    DUPLICATE = "duplicate"
    BATCH = "batch"
    UPLOAD = "upload"
    ORPHAN = "orphan"
    LEFTOVER = "leftover"


SETTLING = frozenset(
    {
        FindingKind.DELETION,
        FindingKind.BATCH,
        FindingKind.UPLOAD,
        FindingKind.DUPLICATE,
        FindingKind.ORPHAN,
        FindingKind.LEFTOVER,
    }
)
"""These may be work under way. They count if they are still the same after SETTLE_SECONDS."""


class SuspectPlace(NamedTuple):
    """A name below a root's folder: `QUEUE:ID`, or `QUEUE/ID` below queues; or one of these in a
    batch or among what was purged."""

    folder: Folder
    name: str

    def __str__(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def message(self) -> str:
        """The message as `QUEUE:ID`, in whatever folder it is."""
        folder, slash, name = self.name.rpartition("/")
        if slash and self.folder is not Folder.QUEUES:
            name = name.removeprefix(HIDDEN)
            return name if ":" in name else f"{folder.partition(':')[0]}:{name}"
        return self.name.replace("/", ":", 1)

    @property
    def is_taken(self) -> bool:
        """Whether a handover in `new` has taken the message, which is removed then."""
        return self.folder is Folder.NEW and f"/{HIDDEN}" in self.name


class Suspect(Protocol):
    """Something that may be wrong."""

    @property
    def kind(self) -> FindingKind: ...

    @property
    def path(self) -> str:
        """The path from the root on."""

    def look(self) -> str | None:
        """Return what is wrong, or None if nothing is wrong or no longer is. Changes nothing.
        Raises OSError."""

    def mend(self) -> str | None:
        """Mend it. Returns what was done, or None if another process was faster or holds the lock.
        Raises OSError."""


@dataclass(frozen=True)
class PlacedSuspect:
    """The common part of suspects that are a file or folder at one place."""

    spool: Spool
    place: SuspectPlace

    @property
    def path(self) -> str:
        return str(self.place)

    def hold(self) -> Held | Lost:
        """Open the message there and take its lock, without waiting."""
        return hold_in(self.spool, *self.place)


class Finding(NamedTuple):
    """Something that is wrong. `repair` is what was done about it, or None if it remains."""

    kind: FindingKind
    path: str
    detail: str
    repair: str | None = None


def move_to_corrupt(spool: Spool, place: SuspectPlace) -> str | None:
    """Set a file or folder aside. Returns what was done, or None if it is gone."""
    # A foreign name may be as long as a name can be. It is cut, so that its queue's name fits in
    # front of it and `~2` after it.
    wanted = os.fsdecode(os.fsencode(place.message)[:_MAX_CORRUPT_NAME_BYTES])
    name = spool.move_aside(place.folder, place.name, Folder.CORRUPT, wanted)
    return None if name is None else f"moved to {SuspectPlace(Folder.CORRUPT, name)}"
