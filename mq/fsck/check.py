"""A whole check: the tree, then every file. What may be work under way is looked at twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mq.disk.files import Files
from mq.fsck.suspect import SETTLE_SECONDS, SETTLING, UNREADABLE, Finding, FindingKind, Suspect
from mq.fsck.tree import is_whole, suspects_of_tree
from mq.fsck.walk import Walk
from mq.lifecycle import Actor
from mq.spool.root import visit_root

_DAMAGED_SAYS_SO = frozenset(
    {
        FindingKind.MODE,
        FindingKind.SEAL,
        FindingKind.DUPLICATE,
        FindingKind.ORPHAN,
        FindingKind.LEFTOVER,
    }
)
"""These find nothing in a message that cannot be read, because that is a finding of its own."""

Treatment = Callable[[Suspect, str], Finding | None]


def report(suspect: Suspect, detail: str) -> Finding:
    """Report a finding and leave it as it is."""
    return Finding(suspect.kind, suspect.path, detail)


def mend(suspect: Suspect, detail: str) -> Finding | None:
    """Mend a finding. Returns None if it is gone by now."""
    try:
        repair = suspect.mend()
        if repair is None and _look(suspect) is None:
            return None
    except OSError as error:
        return Finding(suspect.kind, suspect.path, f"{detail}; not repaired: {error.strerror}")
    if repair is None:
        detail += "; not repaired: another process is working on it"
    return Finding(suspect.kind, suspect.path, detail, repair)


class Check:
    """One check of a root. `treat` deals with each finding; `progress` is called with the number of
    names that were looked at, and of all names."""

    def __init__(
        self,
        root: Path,
        files: Files,
        treat: Treatment,
        progress: Callable[[int, int], None],
        *,
        settle_seconds: float = SETTLE_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._root = root
        self._files = files
        self._treat = treat
        self._progress = progress
        self._settle_seconds = settle_seconds
        self._sleep = sleep

    def run(self) -> Iterator[Finding]:
        """Yield each finding after it was dealt with. Repairs are durable at the end.

        Raises StartRefused if the folder is not a root, or belongs to another user; OSError.
        """
        repaired = False
        for finding in self._findings():
            repaired = repaired or finding.repair is not None
            yield finding
        if repaired:
            self._sync()

    def _findings(self) -> Iterator[Finding]:
        yield from self._examine(suspects_of_tree(self._root, self._files))
        if not is_whole(self._root, self._files):
            return
        spool = visit_root(self._root, self._files, Actor.FSCK)
        try:
            walk = Walk(spool, self._progress, self._settle_seconds)
            yield from self._examine(walk.suspects())
        finally:
            spool.close()

    def _examine(self, suspects: Iterator[Suspect]) -> Iterator[Finding]:
        """Look at each suspect and treat it. Those that may be work under way are looked at again
        after a while, and count only if they are still the same."""
        later: list[Suspect] = []
        for suspect in suspects:
            detail = _look(suspect)
            if detail is None:
                continue
            if suspect.kind in SETTLING:
                later.append(suspect)
            elif (finding := self._treat(suspect, detail)) is not None:
                yield finding
        if later:
            self._sleep(self._settle_seconds)
        later.sort(key=lambda suspect: list(FindingKind).index(suspect.kind))
        for suspect in later:
            detail = _look(suspect)
            if detail is not None and (finding := self._treat(suspect, detail)) is not None:
                yield finding

    def _sync(self) -> None:
        fd = self._files.open_folder(None, str(self._root))
        try:
            self._files.sync_file_system(fd)
        finally:
            self._files.close(fd)


def _look(suspect: Suspect) -> str | None:
    try:
        return suspect.look()
    except PermissionError:
        # Its mode, or that of its folder, is a finding of its own.
        return None
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
        if suspect.kind in _DAMAGED_SAYS_SO:
            return None
        return f"it cannot be read: {error.strerror}"
