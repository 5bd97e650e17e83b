"""Which messages lie in batches that Spark has done: their ids stay known until the reaper comes.

    spark/claims/GROUP/floor.N           batches up to N are done, and each of them lies in
    remove/GROUP:.N/PART/QUEUE:ID        or
    spark/archive/GROUP/N/PART/QUEUE:ID

Asking the disk for a name in every part of every batch takes milliseconds. So a batch is listed
once, when the floor has passed it, and the hash of each name is kept; the disk is asked only about
names with a known hash. A batch that is done does not change, except when it is reaped.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, count, takewhile
from threading import Lock
from typing import NamedTuple

from mq.lifecycle import Folder
from mq.spool.spark.claims import CLAIMS
from mq.spool.spark.letting_go import ARCHIVE, name_in_remove, unsynced_name
from mq.spool.spark.marker_files import parse_number
from mq.spool.spool import Spool

MAX_DONE_MESSAGES = 200_000
"""A server knows the ids of this many messages that Spark is done with, the newest ones: 20 MB."""

GROUPS = f"{Folder.SPARK}/{CLAIMS}"
"""Where the folders of all groups are, from the root on."""

_ARCHIVE = f"{Folder.SPARK}/{ARCHIVE}"
_FLOOR = "floor"

_GAPS = 10
"""After this many missing batches in a row, all earlier ones count as reaped."""

_LOOKS = 3
"""How often a folder is listed: a listing can miss a name that is renamed meanwhile."""


class _Batch(NamedTuple):
    path: str
    hashes: array[int]


class DoneBatches:
    """The newest `most` messages of all groups of a root. Threads may share it."""

    def __init__(self, spool: Spool, most: int = MAX_DONE_MESSAGES) -> None:
        self._root = f"{spool.root}"
        self._most = most
        self._lock = Lock()
        self._floors: dict[str, int] = {}
        self._undone: dict[str, set[int]] = {}
        self._batches: deque[_Batch] = deque()
        self._where: dict[int, str] = {}

    def paths(self, flat: str, groups: Iterable[str] | None = None) -> Iterator[str]:
        """Yield the paths, from the root on, at which `QUEUE:ID` may be. `groups` are the folders
        of all groups, if the caller has just listed them. Raises OSError."""
        with self._lock:
            for path in folders_in(self._root, GROUPS) if groups is None else groups:
                self._catch_up(path.rpartition("/")[2])
            found = self._where.get(hash(flat))
        if found is not None:
            yield from (f"{part}/{flat}" for part in folders_in(self._root, found))

    def _catch_up(self, group: str) -> None:
        known, floor = self._floors.get(group, 0), self._floor(group)
        late = [each for each in sorted(self._undone.get(group, ()), reverse=True) if each <= floor]
        undone: set[int] = set()
        # A group that was taken away and made again counts from the start. These are not listed: a
        # long stream has millions of batches behind it, nearly all of them reaped.
        new = chain(range(floor, known if known <= floor else 0, -1), late)
        read, messages, gaps = [], 0, 0
        for number in new:
            if messages > self._most or gaps > _GAPS:
                break
            claims = f"{self._root}/{GROUPS}/{group}"
            if any(_is_there(f"{claims}/{name}") for name in (number, unsynced_name(number))):
                # The batch is on its way, or kept. Until it arrives, its messages are found where
                # they are claimed.
                undone.add(number)
                continue
            batches = self._read(group, number)
            gaps = 0 if batches else gaps + 1
            read += batches
            messages += sum(len(each.hashes) for each in batches)
        # If a look has failed, all are looked at again the next time.
        self._floors[group], self._undone[group] = floor, undone
        for batch in reversed(read):
            self._enter(batch)

    def _floor(self, group: str) -> int:
        """Return the floor of a group, the greater one if a change of it has left two; or 0 if it
        has none: the group is just being made, or damaged."""
        for _ in range(_LOOKS):
            parted = [name.partition(".") for name in names_in(self._root, f"{GROUPS}/{group}")]
            floors = [parse_number(value) for kind, _, value in parted if kind == _FLOOR]
            if numbers := [each for each in floors if each is not None]:
                return max(numbers)
        return 0

    def _read(self, group: str, number: int) -> list[_Batch]:
        """Read the names of the batches of a number, the newest first. There is none if it is
        reaped or was given back, and there are several in the archive if an earlier group had
        the name."""
        archived = f"{_ARCHIVE}/{group}/{number}"
        beside = (f"{archived}~{each}" for each in count(2))
        batches = list(takewhile(bool, map(self._read_at, chain([archived], beside))))
        removed = self._read_at(f"{Folder.REMOVE}/{name_in_remove(group, number)}")
        return [each for each in (removed, *reversed(batches)) if each is not None]

    def _read_at(self, path: str) -> _Batch | None:
        parts = folders_in(self._root, path)
        names = (name for part in parts for name in names_in(self._root, part))
        return _Batch(path, array("q", map(hash, names))) if parts else None

    def _enter(self, batch: _Batch) -> None:
        self._batches.append(batch)
        self._where.update(dict.fromkeys(batch.hashes, batch.path))
        while self._batches and (len(self._where) > self._most or self._is_oldest_gone()):
            oldest = self._batches.popleft()
            for each in oldest.hashes:
                if self._where.get(each) == oldest.path:
                    del self._where[each]

    def _is_oldest_gone(self) -> bool:
        try:
            return not _is_there(f"{self._root}/{self._batches[0].path}")
        except OSError:
            return False


def _is_there(path: str) -> bool:
    """Return whether there is something of that name. Raises OSError if the disk does not say."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def names_in(root: str, path: str) -> list[str]:
    """Return the names in a folder of the root, and none if there is no such folder. Raises
    OSError."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.listdir(f"{root}/{path}")
    return []


def folders_in(root: str, path: str) -> list[str]:
    """Return the paths from the root on of the folders in a folder. Raises OSError."""
    try:
        all_ = os.scandir(f"{root}/{path}")
    except (FileNotFoundError, NotADirectoryError):
        return []
    with all_:
        return [f"{path}/{each.name}" for each in all_ if each.is_dir(follow_symlinks=False)]
