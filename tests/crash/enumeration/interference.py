"""What a test takes out of the code while it runs: a sync, a lock, or that a move does not replace.

The calls arrive at recorded files, which know the site that made them (`sites.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from mq.commit.barrier import Unsynced
from mq.commit.operation import Need, Operation, Together
from mq.lifecycle import FIXED_FOLDERS
from tests.crash.enumeration.disk import RecordedDisk
from tests.crash.enumeration.recorder import MODERN, Abilities, RecordedFiles
from tests.crash.enumeration.sites import note_askers, running_site

Say = Callable[[Callable[[Any], None]], None]

EVERYTHING = "everything"
A_FILE = "a file"
A_QUEUE = "a queue's folder"


class Interference:
    """Takes nothing out; `seen` are the sites that were there to be taken out."""

    def __init__(self, *sites: str) -> None:
        self.sites = sites
        self.seen: set[str] = set()
        self.struck = 0

    def begin(self) -> None:
        """What was before is not looked at."""
        self.seen.clear()
        self.struck = 0

    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        """Called before a run; what is patched is whole again after it."""

    def files(self, disk: RecordedDisk, abilities: Abilities) -> RecordedFiles:
        return RecordedFiles(disk, abilities)

    def wrap(self, operation: Operation[Any]) -> Operation[Any]:
        return operation

    def strikes(self, site: str) -> bool:
        self.seen.add(site)
        self.struck += site in self.sites
        return site in self.sites


class AtSites(Interference):
    """Strikes where a site makes a call."""

    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        note_askers(patch)


class WithoutSync(AtSites):
    """Takes out the syncs of these sites: `FUNCTION: WHAT`. Without any it only looks."""

    def files(self, disk: RecordedDisk, abilities: Abilities) -> RecordedFiles:
        return _WithoutSync(disk, abilities, self)

    def wrap(self, operation: Operation[Any]) -> Operation[Any]:
        """Take out syncs that an operation asks the barrier for."""
        return _each_need(operation, partial(self._leave_out, operation))

    def _leave_out(self, operation: Operation[Any], need: Need) -> Need:
        if isinstance(need, Together):
            return Together([self.wrap(each) for each in need.operations])
        if not isinstance(need, Unsynced):
            return need
        name = _innermost(operation)
        files = need.files
        if files and self.strikes(f"{name}: {A_FILE}"):
            files = ()
        has_closed_files = need.has_closed_files and not self.strikes(f"{name}: {EVERYTHING}")
        folders, implied = self._left_of(name, need.folders), self._left_of(name, need.implied)
        return Unsynced(files, folders, has_closed_files, implied, need.messages)

    def _left_of(self, name: str, folders: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(each for each in folders if not self.strikes(f"{name}: {_kind_of(each)}"))


class _WithoutSync(RecordedFiles):
    def __init__(self, disk: RecordedDisk, abilities: Abilities, interference: WithoutSync) -> None:
        super().__init__(disk, abilities)
        self._interference = interference

    def sync(self, fd: int) -> None:
        path = os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), self.disk.root)
        is_folder = self.disk.inode(fd) in self.disk.tree.folders
        if not self._is_out(_kind_of(path) if is_folder else A_FILE):
            super().sync(fd)

    def sync_file_system(self, fd: int) -> None:
        if not self._is_out(EVERYTHING):
            super().sync_file_system(fd)

    def _is_out(self, what: str) -> bool:
        return self._interference.strikes(f"{running_site()}: {what}")


class WithoutLock(AtSites):
    """Takes out the locks of these sites, `FUNCTION: CALL`: they go on as if they had them."""

    def files(self, disk: RecordedDisk, abilities: Abilities) -> RecordedFiles:
        return _WithoutLock(disk, abilities, self)


class _WithoutLock(RecordedFiles):
    def __init__(self, disk: RecordedDisk, abilities: Abilities, interference: WithoutLock) -> None:
        super().__init__(disk, abilities)
        self._interference = interference

    def lock(self, fd: int) -> bool:
        return self._is_out("lock") or super().lock(fd)

    def lock_shared(self, fd: int) -> bool:
        return self._is_out("lock_shared") or super().lock_shared(fd)

    def lock_byte(self, fd: int, offset: int) -> bool:
        return self._is_out("lock_byte") or super().lock_byte(fd, offset)

    def _is_out(self, call: str) -> bool:
        is_out = self._interference.strikes(f"{running_site()}: {call}")
        if is_out:
            self._step(call)
        return is_out


class Occupied(AtSites):
    """Just before a site moves its next file, a foreign file comes to be where it moves that to.
    With `replacing`, the move replaces it."""

    CONTENT = b"of somebody else"

    def __init__(self, *sites: str, replacing: bool = False) -> None:
        super().__init__(*sites)
        self.replacing = replacing

    def files(self, disk: RecordedDisk, abilities: Abilities) -> RecordedFiles:
        return _Occupied(disk, abilities, self)


class _Occupied(RecordedFiles):
    def __init__(self, disk: RecordedDisk, abilities: Abilities, interference: Occupied) -> None:
        super().__init__(disk, abilities)
        self._interference = interference

    def rename(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        tree = self.disk.tree
        inode = tree.names.get(tree.resolve(self._folder(source_fd), source), -1)
        is_struck = inode not in tree.folders and self._interference.strikes(str(running_site()))
        if is_struck and self._interference.struck == 1:
            self._put(target_fd, target)
        if is_struck and self._interference.replacing:
            self.replace(source_fd, source, target_fd, target)
        else:
            super().rename(source_fd, source, target_fd, target)

    def _put(self, folder_fd: int, name: str) -> None:
        files = RecordedFiles(self.disk, MODERN)
        fd = files.open_unnamed(folder_fd, 0o600)
        files.write(fd, Occupied.CONTENT)
        files.link(fd, folder_fd, name)
        files.close(fd)


def _each_need(operation: Operation[Any], change: Callable[[Need], Need]) -> Operation[Any]:
    """The operation, with everything that it yields changed."""
    try:
        need = next(operation)
        while True:
            changed = change(need)
            try:
                answer = yield changed
            except BaseException as error:
                need = operation.throw(error)
            else:
                need = operation.send(answer)
    except StopIteration as stop:
        return stop.value


def _innermost(operation: Any) -> str:
    """The function that is at its `yield` now, below all `yield from`."""
    while operation.gi_yieldfrom is not None:
        operation = operation.gi_yieldfrom
    return f"{operation.gi_frame.f_globals['__name__']}.{operation.gi_code.co_qualname}"


def _kind_of(folder: str) -> str:
    if folder == ".":
        return "the root"
    return folder if folder in FIXED_FOLDERS else A_QUEUE
