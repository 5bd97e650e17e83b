"""What appears in a folder: watch, then scan.

inotify gives speed, a listing gives truth. A watch set before the listing misses nothing; what
happens in between is seen twice, which does no harm.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import inotify_simple

_CAME = int(inotify_simple.flags.MOVED_TO | inotify_simple.flags.CREATE)
_WENT = int(inotify_simple.flags.MOVED_FROM | inotify_simple.flags.DELETE)
_CHANGED = int(inotify_simple.flags.ATTRIB)
_FOLDER_WENT = int(inotify_simple.flags.DELETE_SELF | inotify_simple.flags.MOVE_SELF)
_OVERFLOW = int(inotify_simple.flags.Q_OVERFLOW)
_ONLY_FOLDERS = int(inotify_simple.flags.ONLYDIR | inotify_simple.flags.DONT_FOLLOW)


class Change(Enum):
    CAME = "came"
    WENT = "went"
    CHANGED = "its attributes changed"
    FOLDER_WENT = "the folder itself was moved or deleted"
    OVERFLOW = "events were lost: list every folder again"


class Arrival(NamedTuple):
    """One event. `folder` is the key given to `add`, "" for OVERFLOW."""

    folder: str
    name: str
    change: Change


class Watch:
    """An inotify instance over some folders.

    Raises OSError where the system's limits (fs.inotify.max_user_instances, max_user_watches) are
    reached: the caller then relies on listings.
    """

    def __init__(self) -> None:
        self._inotify = inotify_simple.INotify(nonblocking=True)
        self._folders: dict[int, str] = {}
        self._watches: dict[str, int] = {}

    def close(self) -> None:
        self._inotify.close()

    def fileno(self) -> int:
        return int(self._inotify.fileno())

    def add(self, folder: str, path: str, *, attributes: bool = False) -> None:
        """Watch the folder at `path` under the key `folder`, in place of an earlier one."""
        self.drop(folder)
        mask = _CAME | _WENT | _FOLDER_WENT | _ONLY_FOLDERS | (_CHANGED if attributes else 0)
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

    def read(self, timeout_seconds: float = 0.0, gather_seconds: float = 0.0) -> list[Arrival]:
        """What happened since the last call, in order.

        Waits up to `timeout_seconds` for a first event, and then `gather_seconds` for more.
        """
        arrivals = []
        delay_ms = int(gather_seconds * 1000) or None
        for watch, mask, _, name in self._inotify.read(int(timeout_seconds * 1000), delay_ms):
            if mask & _OVERFLOW:
                arrivals.append(Arrival("", "", Change.OVERFLOW))
                continue
            folder = self._folders.get(watch)
            if folder is None:
                continue
            if mask & _CAME:
                arrivals.append(Arrival(folder, name, Change.CAME))
            elif mask & _WENT:
                arrivals.append(Arrival(folder, name, Change.WENT))
            elif mask & _FOLDER_WENT:
                arrivals.append(Arrival(folder, "", Change.FOLDER_WENT))
            elif mask & _CHANGED and name:
                arrivals.append(Arrival(folder, name, Change.CHANGED))
        return arrivals
