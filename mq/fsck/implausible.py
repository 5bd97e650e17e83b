"""Seals that cannot be true. Only the body has a checksum, so a damaged seal is known by what it
says."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from mq.config import SECOND_NS
from mq.disk.status import AnyStatus
from mq.fsck.suspect import FindingKind, PlacedSuspect
from mq.lifecycle import Folder
from mq.spool.message.held import Held, Lost, seal_at
from mq.spool.message.seal import Seal

MAX_PLAUSIBLE_AHEAD_NS = 86_400 * SECOND_NS
MAX_PLAUSIBLE_RECEIVES = 10**9
"""A seal with a larger count was damaged: 1,000 receives a second take eleven days to reach it."""


@dataclass(frozen=True)
class Implausible(PlacedSuspect):
    """A message whose seal says what no server writes: a count that cannot have been reached, or a
    publication time in the future."""

    kind = FindingKind.SEAL

    def look(self) -> str | None:
        """Look without the lock: a seal is always written whole."""
        try:
            seal = seal_at(self.spool, *self.place)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if seal is None else _why(seal, time.time_ns())

    def mend(self) -> str | None:
        """Write a new seal with the count 0 and, as publication time, that of the file's last
        write, or now. The body is whole, so the message stays where it is. Raises OSError if the
        clock may be wrong: all messages would get a new time, and the queue another order."""
        held = self.hold()
        if isinstance(held, Lost):
            return None
        with held:
            now_ns = time.time_ns()
            if held.seal is None or _why(held.seal, now_ns) is None:
                return None
            if _is_ahead(held.seal.published_ns, now_ns) and _is_ahead(
                held.status.st_ctime_ns, now_ns
            ):
                raise OSError(
                    0,
                    "the file was last changed in the future too, so this machine's clock may be "
                    "behind: set it; if it is right, chmod u+rw the file first",
                )
            held.write_seal(_plausible(held.seal, held.status, now_ns))
            if self.place.folder is Folder.DELAY:
                self._keep_stamp(held, now_ns)
        return "a new seal was written"

    def _keep_stamp(self, held: Held, now_ns: int) -> None:
        """Set the stamp again. A new seal sets ctime, and a stamp counts only if it is later than
        that."""
        before, after = held.status, os.fstat(held.fd)
        if before.st_ctime_ns < before.st_mtime_ns <= after.st_ctime_ns:
            self.spool.files.stamp(held.fd, now_ns + SECOND_NS)


def _why(seal: Seal, now_ns: int) -> str | None:
    if seal.receive_count > MAX_PLAUSIBLE_RECEIVES:
        return f"its seal says that it was received {seal.receive_count} times"
    days = (seal.published_ns - now_ns) // (86_400 * SECOND_NS)
    if _is_ahead(seal.published_ns, now_ns):
        return f"its seal says that it was published {days} days from now"
    return None


def _plausible(seal: Seal, status: AnyStatus, now_ns: int) -> Seal:
    count = 0 if seal.receive_count > MAX_PLAUSIBLE_RECEIVES else seal.receive_count
    if not _is_ahead(seal.published_ns, now_ns):
        return seal._replace(receive_count=count)
    published_ns = min(max(status.st_mtime_ns, 0), now_ns)
    return seal._replace(receive_count=count, published_ns=published_ns)


def _is_ahead(time_ns: int, now_ns: int) -> bool:
    return time_ns > now_ns + MAX_PLAUSIBLE_AHEAD_NS
