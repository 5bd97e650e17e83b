"""What every check finds, and what it can be asked."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from mq.lifecycle import Folder
from mq.spool.folders import Spool


class Kind(StrEnum):
    """In the order in which suspects that had to settle are mended: one can explain the next."""

    MISSING = "missing"
    MODE = "mode"
    FOREIGN = "foreign"
    DAMAGED = "damaged"
    DELETION = "deletion"
    BATCH = "batch"
    UPLOAD = "upload"
    DUPLICATE = "duplicate"
    ORPHAN = "orphan"
    LEFTOVER = "leftover"


SETTLING = frozenset(
    {Kind.DELETION, Kind.BATCH, Kind.UPLOAD, Kind.DUPLICATE, Kind.ORPHAN, Kind.LEFTOVER}
)
"""These may be work under way: they count once they are the same after FSCK_SETTLE_SECONDS."""


class Place(NamedTuple):
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
    def kind(self) -> Kind: ...

    @property
    def path(self) -> str:
        """Relative to the root."""

    def look(self) -> str | None:
        """What is wrong; None if nothing is, or no longer. Changes nothing. Raises OSError."""

    def mend(self) -> str | None:
        """What was done; None if somebody else was faster or holds the lock. Raises OSError."""


class Finding(NamedTuple):
    """`repair` is what was done about it; None if it remains."""

    kind: Kind
    path: str
    detail: str
    repair: str | None = None


def move_to_corrupt(spool: Spool, place: Place) -> str | None:
    """Set a file or folder aside; what was done, None if it is gone."""
    name = spool.move_aside(place.folder, place.name, Folder.CORRUPT, place.message)
    return None if name is None else f"moved to {Place(Folder.CORRUPT, name)}"
