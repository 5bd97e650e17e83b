"""What every check finds, and what it can be asked."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import NamedTuple, Protocol

from mq.lifecycle import Folder
from mq.spool.folders import Spool

_MAX_CORRUPT_NAME_BYTES = 240
"""Of the 255 that a name may have."""


class FindingKind(StrEnum):
    """In the order in which suspects that had to settle are mended: one can explain the next."""

    MISSING = "missing"
    FORMAT = "format"
    MODE = "mode"
    FOREIGN = "foreign"
    DAMAGED = "damaged"
    SEAL = "seal"
    SETTINGS = "settings"
    DELETION = "deletion"
    BATCH = "batch"
    UPLOAD = "upload"
    DUPLICATE = "duplicate"
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
"""These may be work under way: they count once they are the same after FSCK_SETTLE_SECONDS."""


class SuspectPlace(NamedTuple):
    """A name below a root's folder: `QUEUE:ID`, or `QUEUE/ID` below queues."""

    folder: Folder
    name: str

    def __str__(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def message(self) -> str:
        """`QUEUE:ID`, in whatever folder."""
        return self.name.replace("/", ":", 1)


class Suspect(Protocol):
    """Something that may be wrong."""

    @property
    def kind(self) -> FindingKind: ...

    @property
    def path(self) -> str:
        """Relative to the root."""

    def look(self) -> str | None:
        """What is wrong; None if nothing is, or no longer. Changes nothing. Raises OSError."""

    def mend(self) -> str | None:
        """Returns what was done; None if another process was faster or holds the lock. Raises
        OSError."""


class Finding(NamedTuple):
    """`repair` is what was done about it; None if it remains."""

    kind: FindingKind
    path: str
    detail: str
    repair: str | None = None


def move_to_corrupt(spool: Spool, place: SuspectPlace) -> str | None:
    """Set a file or folder aside; what was done, None if it is gone."""
    # A foreign name may be as long as a name can be: with its queue's in front, and `~2` behind it,
    # it is cut.
    wanted = os.fsdecode(os.fsencode(place.message)[:_MAX_CORRUPT_NAME_BYTES])
    name = spool.move_aside(place.folder, place.name, Folder.CORRUPT, wanted)
    return None if name is None else f"moved to {SuspectPlace(Folder.CORRUPT, name)}"
