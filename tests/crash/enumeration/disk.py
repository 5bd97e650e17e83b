"""A disk as the crash model sees it: one ordered log of metadata, data, and syncs.

Names, extended attributes, times and permissions are metadata and belong to that one log. Data is
what `write` wrote. A file that was never linked has no name in any state, so it vanishes.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Named(NamedTuple):
    """link, mkdir or the creation of a file."""

    folder: int
    name: str
    inode: int


class Renamed(NamedTuple):
    folder: int
    name: str
    target_folder: int
    target: str


class Exchanged(NamedTuple):
    """Two names that lead to one another's folder now."""

    folder: int
    name: str
    target_folder: int
    target: str


class Unnamed(NamedTuple):
    """unlink or rmdir."""

    folder: int
    name: str


class Attributed(NamedTuple):
    inode: int
    attribute: str
    value: bytes


class Stamped(NamedTuple):
    inode: int
    mtime_ns: int


Change = Named | Renamed | Exchanged | Unnamed | Attributed | Stamped
"""One entry of the log."""


class Wrote(NamedTuple):
    """`at` is where in the file it begins: at its end, or in place of what is there."""

    inode: int
    data: bytes
    at: int

    def on(self, before: bytes) -> bytes:
        """What is in the file then."""
        return before[: self.at] + self.data + before[self.at + len(self.data) :]


class WroteOut(NamedTuple):
    """The data of a file is on the disk, and where it is in the log: it is durable with a later
    entry of that."""

    inode: int


class Synced(NamedTuple):
    """fsync of a file or folder; of everything if `inode` is None."""

    inode: int | None


class SyncFailed(NamedTuple):
    """Like Synced, but it failed: the pages count as clean from now on, without being written."""

    inode: int | None


class Said(NamedTuple):
    """Something that a client asked for or was told; `fact` is applied to a ledger."""

    fact: Callable[[Any], None]


Event = Change | Wrote | WroteOut | Synced | SyncFailed | Said
CHANGES = (Named, Renamed, Exchanged, Unnamed, Attributed, Stamped)

ROOT = 0
"""The inode of the recorded folder."""


class Tree:
    """Names and attributes as they are after a part of the log."""

    def __init__(self) -> None:
        self.names: dict[tuple[int, str], int] = {}
        self.folders: set[int] = {ROOT}
        self.attributes: dict[tuple[int, str], bytes] = {}
        self.stamps: dict[int, int] = {}

    def copy(self) -> Tree:
        twin = Tree()
        twin.names = dict(self.names)
        twin.folders = self.folders
        twin.attributes = dict(self.attributes)
        twin.stamps = dict(self.stamps)
        return twin

    def apply(self, change: Change) -> None:
        match change:
            case Named(folder, name, inode):
                self.names[folder, name] = inode
            case Renamed(folder, name, target_folder, target):
                inode = self.names[folder, name]
                # rename(2): two names of one file are both left.
                if self.names.get((target_folder, target)) != inode:
                    del self.names[folder, name]
                    self.names[target_folder, target] = inode
            case Exchanged(folder, name, target_folder, target):
                one, other = (folder, name), (target_folder, target)
                self.names[one], self.names[other] = self.names[other], self.names[one]
            case Unnamed(folder, name):
                del self.names[folder, name]
            case Attributed(inode, attribute, value):
                self.attributes[inode, attribute] = value
            case Stamped(inode, mtime_ns):
                self.stamps[inode] = mtime_ns

    def resolve(self, folder: int, path: str) -> tuple[int, str]:
        """The folder that the last part of `path` is in, and that part."""
        *parents, name = path.split("/")
        for parent in parents:
            folder = self.names[folder, parent]
        return folder, name


class RecordedDisk:
    """What was done to one folder and all below, by any number of actors."""

    def __init__(self, root: Path) -> None:
        """`root` is what it is, and durable."""
        self.root = root
        self.lock = threading.RLock()
        self.events: list[Event] = []
        self.tree = Tree()
        self.first_tree = Tree()
        self.first_contents: dict[int, bytes] = {}
        self.failures = 0
        self._inodes: dict[int, int] = {os.stat(root).st_ino: ROOT}
        self._next = ROOT + 1
        self._adopt(root, ROOT)
        self.first_tree = self.tree.copy()

    def _adopt(self, path: Path, folder: int) -> None:
        for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
            status = entry.stat(follow_symlinks=False)
            inode = self._inodes.get(status.st_ino)
            if inode is None:
                inode = self.add_inode(status)
                if not entry.is_dir():
                    self._adopt_file(entry.path, inode, status)
            self.tree.names[folder, entry.name] = inode
            if entry.is_dir():
                self._adopt(Path(entry.path), inode)

    def _adopt_file(self, path: str, inode: int, status: os.stat_result) -> None:
        with open(path, "rb") as file:
            self.first_contents[inode] = file.read()
        for attribute in os.listxattr(path):
            self.tree.attributes[inode, attribute] = os.getxattr(path, attribute)
        if status.st_mtime_ns > status.st_ctime_ns:
            self.tree.stamps[inode] = status.st_mtime_ns

    def add_inode(self, status: os.stat_result) -> int:
        """A new file or folder, which may have the number of one that is gone."""
        inode = self._inodes[status.st_ino] = self._next
        self._next += 1
        if stat.S_ISDIR(status.st_mode):
            self.tree.folders.add(inode)
            self.first_tree.folders.add(inode)
        return inode

    def inode(self, fd: int | None) -> int | None:
        """Return the inode of a descriptor, or None if it is not below the root."""
        return None if fd is None else self._inodes.get(os.fstat(fd).st_ino)

    def note(self, event: Event) -> None:
        if isinstance(event, CHANGES):
            self.tree.apply(event)
        self.events.append(event)

    def say(self, fact: Callable[[Any], None]) -> None:
        with self.lock:
            self.events.append(Said(fact))

    def contents(self) -> dict[int, bytes]:
        """What each file contains now, for a process that can still read its pages."""
        found = dict(self.first_contents)
        for event in self.events:
            if isinstance(event, Wrote):
                found[event.inode] = event.on(found.get(event.inode, b""))
        return found
