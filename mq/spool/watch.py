"""File system events: which names come to a folder, and which leave it (inotify(7)).

Events are fast, a listing is complete, so callers use both. A watch that is set before the listing
misses nothing; what happens in between is seen twice, which does no harm.
"""

from __future__ import annotations

import os
import struct
from collections import defaultdict
from collections.abc import Iterator
from enum import Enum
from operator import itemgetter
from typing import NamedTuple

import inotify_simple


class Change(Enum):
    CAME = "came"
    WENT = "went"
    CHANGED = "its attributes changed"
    FOLDER_WENT = "the folder itself was moved or deleted"
    OVERFLOW = "events were lost: list every folder again"


_CHANGES = {
    int(inotify_simple.flags.MOVED_TO): Change.CAME,
    int(inotify_simple.flags.CREATE): Change.CAME,
    int(inotify_simple.flags.MOVED_FROM): Change.WENT,
    int(inotify_simple.flags.DELETE): Change.WENT,
    int(inotify_simple.flags.DELETE_SELF): Change.FOLDER_WENT,
    int(inotify_simple.flags.MOVE_SELF): Change.FOLDER_WENT,
    int(inotify_simple.flags.ATTRIB): Change.CHANGED,
    int(inotify_simple.flags.Q_OVERFLOW): Change.OVERFLOW,
}
"""What the kernel says of a watched folder. Each event says one of these."""

_WATCH_ENDED = int(inotify_simple.flags.IGNORED)
"""This event follows the one that says why the watch ended. It has the same watch, and no name.
"""

_ATTRIBUTES = int(inotify_simple.flags.ATTRIB)
_WATCHED = sum(_CHANGES) & ~_ATTRIBUTES & ~int(inotify_simple.flags.Q_OVERFLOW)
_ONLY_FOLDERS = int(inotify_simple.flags.ONLYDIR | inotify_simple.flags.DONT_FOLLOW)
_NOT_OF_A_FOLDER = ~int(inotify_simple.flags.ISDIR)

_NO_WATCH = -1
"""The watch that an overflow comes under."""

_EVENT = struct.Struct("iIII")
"""struct inotify_event: watch, mask, cookie, length of the name that follows, with its padding."""

_ID_BYTES = 48
_ID_EVENT = struct.Struct(f"iIII{_ID_BYTES}s")
"""An event with the id of a server: 36 characters and their padding."""

_WATCH_AND_NAME, _MASK, _LENGTH = itemgetter(0, 4), itemgetter(1), itemgetter(3)

_EVENT_BYTES = _EVENT.size
_READ_BYTES = 64 * 1024
_LARGEST_EVENT_BYTES = _EVENT_BYTES + 256


class FolderEvent(NamedTuple):
    """One event of inotify. `folder` is the key that was given to `add`, or "" for OVERFLOW."""

    folder: str
    name: str
    change: Change


class Watch:
    """An inotify instance that watches some folders.

    Raises OSError where the system's limits (fs.inotify.max_user_instances, max_user_watches) are
    reached: the caller then relies on listings.
    """

    def __init__(self) -> None:
        self._inotify = inotify_simple.INotify(nonblocking=True)
        self._folders: dict[int, str] = {_NO_WATCH: ""}
        self._watches: dict[str, int] = {}
        self._is_within_a_move = False

    def close(self) -> None:
        self._inotify.close()

    def fileno(self) -> int:
        return int(self._inotify.fileno())

    def add(self, folder: str, path: str, *, attributes: bool = False) -> None:
        """Watch the folder at `path` under the key `folder`, in place of an earlier one."""
        self.drop(folder)
        mask = _WATCHED | _ONLY_FOLDERS | (_ATTRIBUTES if attributes else 0)
        watch = self._inotify.add_watch(path, mask)
        self._folders[watch] = folder
        self._watches[folder] = watch

    def has(self, folder: str) -> bool:
        return folder in self._watches

    def drop(self, folder: str) -> None:
        watch = self._watches.pop(folder, None)
        if watch is None:
            return
        self._folders.pop(watch, None)
        try:
            self._inotify.rm_watch(watch)
        except OSError:
            # The kernel dropped it when the folder was deleted.
            pass

    def read(self, timeout_seconds: float = 0.0, gather_seconds: float = 0.0) -> list[FolderEvent]:
        """Return what happened since the last call, in order.

        Waits up to `timeout_seconds` for a first event, and then `gather_seconds` for more.
        """
        events = []
        delay_ms = int(gather_seconds * 1000) or None
        self._is_within_a_move = False
        for watch, mask, _, name in self._inotify.read(int(timeout_seconds * 1000), delay_ms):
            self._is_within_a_move = bool(mask & inotify_simple.flags.MOVED_FROM)
            change = _CHANGES.get(mask & _NOT_OF_A_FOLDER)
            if change is None or watch not in self._folders:
                continue
            if name or change is not Change.CHANGED:
                events.append(FolderEvent(self._folders[watch], name, change))
        return events

    def read_whole_moves(self, folder_fd: int) -> list[FolderEvent]:
        """Return what `read` does, with both events of each move within the folder, which is open
        as `folder_fd`. It does not wait for others."""
        events = self.read()
        while self._is_within_a_move:
            # The kernel locks a folder until it has told of a move in it. A listing takes that lock
            # too, so after it the second event is there, unless the name went to another folder.
            with os.scandir(folder_fd) as entries:
                next(entries, None)
            events += self.read()
        return events

    def read_last(self) -> list[tuple[str, Change, list[str]]]:
        """Return the last event of each name since the previous call, as (folder, change, names)
        with all names that have the same one. It does not wait.

        A server reads its own moves here, two for each message. Plain tuples, without a call for
        each event, take half the time that `read` takes.
        """
        last: dict[tuple[int, bytes], int] = {}
        unpack = _EVENT.unpack_from
        for data in self._read_raw():
            offset, end = 0, len(data)
            of_ids = [] if end % _ID_EVENT.size else [*_ID_EVENT.iter_unpack(data)]
            if {*map(_LENGTH, of_ids)} == {_ID_BYTES}:  # This is the usual case.
                last.update(zip(map(_WATCH_AND_NAME, of_ids), map(_MASK, of_ids), strict=True))
                continue
            while offset < end:
                watch, mask, _, length = unpack(data, offset)
                name_at = offset + _EVENT_BYTES
                offset = name_at + length
                if mask != _WATCH_ENDED:
                    last[watch, data[name_at:offset]] = mask
        if not last:
            return []
        together: defaultdict[tuple[int, int], list[bytes]] = defaultdict(list)
        for (watch, padded), mask in last.items():
            together[watch, mask].append(padded)
        folders, told = self._folders, []
        for (watch, mask), names in together.items():
            change = _CHANGES.get(mask & _NOT_OF_A_FOLDER)
            if change is not None and watch in folders:
                told.append((folders[watch], change, [*map(_name_in, names)]))
        return told

    def _read_raw(self) -> Iterator[bytes]:
        """Yield whole events, as the kernel packs them, until there are no more."""
        is_full = True
        while is_full:
            try:
                data = os.read(self.fileno(), _READ_BYTES)
            except BlockingIOError:
                return
            is_full = len(data) > _READ_BYTES - _LARGEST_EVENT_BYTES
            yield data


def _name_in(padded: bytes) -> str:
    return padded.rstrip(b"\0").decode("utf-8", "surrogateescape")
