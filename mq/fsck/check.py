"""A whole check: the tree, then every file; what may be work under way is looked at twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mq.config import FSCK_SETTLE_SECONDS
from mq.fsck.suspect import SETTLING, Finding, Kind, Suspect
from mq.fsck.tree import suspects_of_tree
from mq.fsck.walk import Walk
from mq.lifecycle import FIXED_FOLDERS, Actor
from mq.spool.files import Files
from mq.spool.root import visit_root

Treatment = Callable[[Suspect, str], Finding | None]


def report(suspect: Suspect, detail: str) -> Finding:
    """Leave it."""
    return Finding(suspect.kind, suspect.path, detail)


def mend(suspect: Suspect, detail: str) -> Finding | None:
    """Mend it. None if it is gone by now."""
    try:
        repair = suspect.mend()
        if repair is None and _look(suspect) is None:
            return None
    except OSError as error:
        return Finding(suspect.kind, suspect.path, f"{detail}; not repaired: {error.strerror}")
    if repair is None:
        detail += "; not repaired: somebody else is at work on it"
    return Finding(suspect.kind, suspect.path, detail, repair)


def check(
    root: Path, files: Files, treat: Treatment, progress: Callable[[int, int], None]
) -> Iterator[Finding]:
    """What is wrong with a root, after `treat` has dealt with it; repairs are durable at the end.

    Raises StartRefused for what is no root, or one that somebody else owns; OSError.
    """
    repaired = False
    for finding in _findings(root, files, treat, progress):
        repaired = repaired or finding.repair is not None
        yield finding
    if repaired:
        _sync(root, files)


def _findings(
    root: Path, files: Files, treat: Treatment, progress: Callable[[int, int], None]
) -> Iterator[Finding]:
    yield from _settle(suspects_of_tree(root, files), treat)
    if not all((root / folder).exists() for folder in FIXED_FOLDERS):
        return
    spool = visit_root(root, files, Actor.FSCK)
    try:
        yield from _settle(Walk(spool, progress).suspects(), treat)
    finally:
        spool.close()


def _settle(suspects: Iterator[Suspect], treat: Treatment) -> Iterator[Finding]:
    """Look at each suspect and treat it; those that may be work under way after a while, and only
    if they are still the same."""
    later: list[Suspect] = []
    for suspect in suspects:
        detail = _look(suspect)
        if detail is None:
            continue
        if suspect.kind in SETTLING:
            later.append(suspect)
        elif (finding := treat(suspect, detail)) is not None:
            yield finding
    if later:
        time.sleep(FSCK_SETTLE_SECONDS)
    later.sort(key=lambda suspect: list(Kind).index(suspect.kind))
    for suspect in later:
        detail = _look(suspect)
        if detail is not None and (finding := treat(suspect, detail)) is not None:
            yield finding


def _look(suspect: Suspect) -> str | None:
    try:
        return suspect.look()
    except PermissionError:
        # Its mode, or its folder's, is a finding of its own.
        return None


def _sync(root: Path, files: Files) -> None:
    fd = files.open_folder(None, str(root))
    try:
        files.sync_file_system(fd)
    finally:
        files.close(fd)
