"""What a power cut can leave of a Disk.

The log is kept up to some entry, which is not before the last that a sync made durable. fsync of a
folder makes durable the last change of a name in it, fsync of a file its data and its last change
of an attribute or time, or the name that it got last; with that change all earlier ones of the log.
A folder or file without a change makes nothing durable. syncfs makes everything durable. Data that
was written out is durable with any later entry of the log. Data that was not synced is whole,
missing, cut in half, or all zeros.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.crash.enumeration.disk import (
    CHANGES,
    ROOT,
    Attributed,
    Change,
    Exchanged,
    Named,
    RecordedDisk,
    Renamed,
    Said,
    Stamped,
    Synced,
    SyncFailed,
    Tree,
    Unnamed,
    Wrote,
    WroteOut,
)

MOST_VARIANTS = 20
"""Of the data of one tree; if more files are torn than that allows, a sample."""

_DELETED_QUEUE = re.compile(r"(:\.)[0-9a-f]{8}-[0-9a-f-]{27}$")
_UPLOAD = re.compile(r"^\.[0-9a-f]{16}$")
_PROBE = ".probe-"


class FileState(NamedTuple):
    """All names of one file, and what is in it. `mtime_ns` is None if nobody stamped it."""

    paths: tuple[str, ...]
    data: bytes
    attributes: tuple[tuple[str, bytes], ...]
    mtime_ns: int | None


class DiskState(NamedTuple):
    """A folder with everything below it. Equal states are the same to any process that starts on
    them."""

    folders: tuple[str, ...]
    files: tuple[FileState, ...]


class CutState(NamedTuple):
    """A state that a power cut after `events` events can leave."""

    events: int
    state: DiskState


def states_of(disk: RecordedDisk, since: int = 0) -> Iterator[CutState]:
    """Every state that a cut at or after event `since` can leave. A state is named again for a
    later cut only if a client was told something in between."""
    seen: set[tuple[int, tuple[bytes, ...]]] = set()
    medium = _Medium(disk)
    for number, event in enumerate([*disk.events, None]):
        if number >= since:
            for state in medium.states(seen):
                yield CutState(number, state)
        if event is not None:
            medium.take(event)
            if isinstance(event, Said):
                seen.clear()


def last_state_of(disk: RecordedDisk) -> DiskState:
    """Return the state in which everything is durable."""
    contents = disk.contents()
    return snapshot(disk.tree, contents)


class _Medium:
    """What is durable and what is not, after some events."""

    def __init__(self, disk: RecordedDisk) -> None:
        self._log: list[Change] = []
        self._trees = [disk.first_tree]
        self._durable_trees = 0
        self._durable = dict(disk.first_contents)
        self._written = dict(disk.first_contents)
        self._written_out: list[tuple[int, int, bytes]] = []
        self._spoiled: set[int] = set()
        self._made: dict[tuple[int, tuple[bytes, ...]], DiskState] = {}

    def take(self, event: object) -> None:
        if isinstance(event, CHANGES):
            tree = self._trees[-1].copy()
            tree.apply(event)
            self._log.append(event)
            self._trees.append(tree)
        elif isinstance(event, Wrote):
            self._written[event.inode] = event.on(self._written.get(event.inode, b""))
        elif isinstance(event, WroteOut):
            if event.inode not in self._spoiled:
                data = self._written.get(event.inode, b"")
                self._written_out.append((len(self._log), event.inode, data))
        elif isinstance(event, Synced):
            self._sync(event)
        elif isinstance(event, SyncFailed):
            self._spoiled |= self._unsynced() if event.inode is None else {event.inode}

    def _sync(self, event: Synced) -> None:
        synced = self._log_synced_by(event)
        self._durable_trees = max(self._durable_trees, synced)
        self._durable |= {inode: data for at, inode, data in self._written_out if at < synced}
        for inode in self._unsynced() if event.inode is None else {event.inode}:
            if inode in self._written and inode not in self._spoiled:
                self._durable[inode] = self._written[inode]

    def _log_synced_by(self, event: Synced) -> int:
        """How many entries of the log that makes durable."""
        for number in range(len(self._log), 0, -1):
            if event.inode is None or event.inode in _touched(self._log[number - 1]):
                return number
        return 0

    def _unsynced(self) -> set[int]:
        return {i for i, data in self._written.items() if self._durable.get(i) != data}

    def states(self, seen: set[tuple[int, tuple[bytes, ...]]]) -> Iterator[DiskState]:
        unsynced = self._unsynced()
        for number in range(self._durable_trees, len(self._trees)):
            tree = self._trees[number]
            torn = sorted(unsynced.intersection(tree.names.values()))
            for variant in self._variants(torn):
                key = (number, variant)
                if key in seen:
                    continue
                seen.add(key)
                if key not in self._made:
                    contents = self._written | dict(zip(torn, variant, strict=True))
                    self._made[key] = snapshot(tree, contents)
                yield self._made[key]

    def _variants(self, torn: Sequence[int]) -> Iterator[tuple[bytes, ...]]:
        choices = [_torn(self._durable.get(i, b""), self._written[i]) for i in torn]
        if 4 ** len(choices) <= MOST_VARIANTS:
            yield from itertools.product(*choices)
            return
        for kind in range(4):
            yield tuple(options[kind % len(options)] for options in choices)
        for number, options in enumerate(choices):
            for option in options[1:]:
                yield tuple(option if i == number else c[0] for i, c in enumerate(choices))
        chosen = random.Random(len(choices))
        for _ in range(MOST_VARIANTS):
            yield tuple(chosen.choice(options) for options in choices)


def _touched(change: Change) -> tuple[int, ...]:
    """The folders whose names changed, and the file whose attributes did."""
    match change:
        case Named(folder, _, inode):
            return folder, inode
        case Unnamed(folder, _):
            return (folder,)
        case Renamed(folder, _, target_folder, _) | Exchanged(folder, _, target_folder, _):
            return folder, target_folder
        case Attributed(inode, _, _) | Stamped(inode, _):
            return (inode,)


def _torn(durable: bytes, written: bytes) -> list[bytes]:
    """Whole first."""
    rest = len(written) - len(durable)
    half = durable + written[len(durable) : len(durable) + rest // 2]
    return list(dict.fromkeys([written, durable, half, durable + bytes(rest)]))


def snapshot(tree: Tree, contents: dict[int, bytes]) -> DiskState:
    """The tree as paths. Probes of a starting server are empty and hidden, and left out; what has a
    random name gets a number: the folder of a deleted queue, an upload that has no name yet."""
    inside: dict[int, list[tuple[str, int]]] = {}
    for (folder, name), inode in tree.names.items():
        if not name.startswith(_PROBE):
            inside.setdefault(folder, []).append((name, inode))
    folders: list[str] = []
    paths: dict[int, list[str]] = {}
    ahead = [(ROOT, "")]
    while ahead:
        folder, path = ahead.pop()
        for number, (name, inode) in enumerate(sorted(inside.get(folder, ()))):
            shown = path + _without_chance(name, number)
            if inode in tree.folders:
                folders.append(shown)
                ahead.append((inode, f"{shown}/"))
            else:
                paths.setdefault(inode, []).append(shown)
    attributes: dict[int, list[tuple[str, bytes]]] = {}
    for (inode, attribute), value in tree.attributes.items():
        attributes.setdefault(inode, []).append((attribute, value))
    files = (
        FileState(
            tuple(sorted(names)),
            contents.get(inode, b""),
            tuple(sorted(attributes.get(inode, ()))),
            tree.stamps.get(inode),
        )
        for inode, names in paths.items()
    )
    return DiskState(tuple(sorted(folders)), tuple(sorted(files)))


def _without_chance(name: str, number: int) -> str:
    if "." not in name:
        return name
    if _UPLOAD.match(name):
        return f".{number:016x}"
    return _DELETED_QUEUE.sub(rf"\g<1>00000000-0000-4000-8000-{number:012}", name)
