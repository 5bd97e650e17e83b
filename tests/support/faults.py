"""The seam where tests put a full disk, an I/O error, a kill or a poorer file system."""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mq.disk.files import Files
from mq.spool.network_files import NetworkFiles

CHANGES = frozenset(
    {"create", "rename", "exchange", "replace", "link", "unlink", "make_folder", "remove_folder",
     "write", "set_attribute", "stamp"}
)  # fmt: skip
SYNCS = frozenset({"sync", "sync_file_system"})
WATCHED = (
    CHANGES
    | SYNCS
    | {"open_message", "open_to_look", "open_unnamed", "open_folder", "read", "replace_fd", "lock",
       "close", "write_out", "status_of"}
)  # fmt: skip


def raising(code: int) -> Callable[..., NoReturn]:
    """Return a function that fails with that errno, whatever it is called with."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise OSError(code, os.strerror(code))

    return fail


class WatchedFiles(Files):
    """Real files that count their calls, and fail or wait where a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.before: dict[str, Callable[..., object]] = {}

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return functools.partial(self._watched, name, found) if name in WATCHED else found

    def _watched(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        self.calls[name] += 1
        hook = self.before.get(name)
        if hook is not None:
            hook(*arguments)
        return call(*arguments)

    def syncs(self) -> int:
        return sum(self.calls[name] for name in SYNCS)

    def fail(self, *names: str, code: int = errno.EIO, times: int = 1) -> None:
        """Let the next `times` calls of `names` raise OSError with `code`."""
        left = [None] * times

        def hook(*_: Any) -> None:
            if left:
                left.pop()
                raise OSError(code, os.strerror(code))

        self.before |= dict.fromkeys(names, hook)

    def hold_back(self, *names: str) -> Gate:
        """Let calls of `names` wait until the gate is opened."""
        gate = Gate()
        self.before |= dict.fromkeys(names, gate.wait)
        return gate


class Gate:
    """Stops every thread that comes to it, until it is opened."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._opened = threading.Event()

    def wait(self, *_: Any) -> None:
        self._reached.set()
        assert self._opened.wait(30)

    async def reached(self) -> None:
        """Return once a thread waits at the gate."""
        async with asyncio.timeout(20):
            while not self._reached.is_set():
                await asyncio.sleep(0.001)

    def open(self) -> None:
        self._opened.set()


class OldFiles(WatchedFiles):
    """A file system without RENAME_NOREPLACE and without O_TMPFILE."""

    def __init__(self) -> None:
        super().__init__()
        self.renames_without_replacing = False
        self.has_unnamed_files = False


class PlainFiles(WatchedFiles):
    """A file system without extended attributes."""

    def set_attribute(self, fd: int, name: str, value: bytes) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    def attribute(self, fd: int | str, name: str) -> bytes | None:
        return None


class WindowsFiles(Files):
    """A file system that refuses names with a colon, as vfat does."""

    def create(self, folder_fd: int, name: str, mode: int) -> int:
        self._check(name)
        return super().create(folder_fd, name, mode)

    def link(self, fd: int, folder_fd: int, name: str) -> None:
        self._check(name)
        super().link(fd, folder_fd, name)

    def _check(self, name: str) -> None:
        if ":" in name:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)


class FarFiles(Files):
    """Those of another machine, to which the locks of folders do not reach."""

    def lock(self, fd: int) -> bool:
        return stat.S_ISDIR(os.fstat(fd).st_mode) or super().lock(fd)


class _LosingFiles(Files):
    """What it does to a name is done, and the answer is what the same request gets again."""

    loses = False

    def rename_once(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        super().rename_once(source_fd, source, target_fd, target)
        self._lose(errno.ENOENT)

    def replace(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        super().replace(source_fd, source, target_fd, target)
        self._lose(errno.ENOENT)

    def unlink(self, folder_fd: int, name: str) -> None:
        super().unlink(folder_fd, name)
        self._lose(errno.ENOENT)

    def make_folder(self, folder_fd: int | None, name: str, mode: int) -> None:
        super().make_folder(folder_fd, name, mode)
        self._lose(errno.EEXIST)

    def remove_folder(self, folder_fd: int, name: str) -> None:
        super().remove_folder(folder_fd, name)
        self._lose(errno.ENOENT)

    def _lose(self, code: int) -> None:
        if self.loses:
            raise OSError(code, os.strerror(code))


class LossyFiles(NetworkFiles, _LosingFiles):
    """Those of a network that loses every reply. With `is_plain` the file system has no rename
    flags."""

    def __init__(self, root: Path, is_plain: bool = False) -> None:
        super().__init__(root)
        self.renames_without_replacing = not is_plain
        self.loses = self.loses_later = True

    @contextmanager
    def losing(self) -> Iterator[None]:
        """Lose the replies of one block, if `loses_later`."""
        self.loses = self.loses_later
        try:
            yield
        finally:
            self.loses = False


def looks_of(files: NetworkFiles, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names that `files` will have asked the file system for."""
    looks: list[str] = []
    look_up = files.look_up

    def note(folder_fd: int | None, name: str) -> None:
        looks.append(name)
        look_up(folder_fd, name)

    monkeypatch.setattr(files, "look_up", note)
    return looks


class SuspiciousFiles(WatchedFiles):
    """Notes every sync of a descriptor whose sync has failed before: the kernel may have marked
    the pages clean, so that it "succeeds" without the data."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: list[int] = []
        self.retried: list[int] = []
        self._opened = 0
        self._openings: dict[int, int] = {}

    def _watched(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        opening = self._openings.get(arguments[0], 0) if name in SYNCS else 0
        if opening in self.failed:
            self.retried.append(arguments[0])
        try:
            result = super()._watched(name, call, *arguments)
        except OSError:
            if name in SYNCS:
                self.failed.append(opening)
            raise
        if name in ("create", "open_message", "open_unnamed", "open_folder"):
            self._opened += 1
            self._openings[result] = self._opened
        elif name == "replace_fd":
            new, replaced = arguments
            self._openings[replaced] = self._openings[new]
        return result


class CountedFiles(WatchedFiles):
    """When `calls_left` calls of `names` have been made, `happens` comes before the next one. If it
    raises, it comes before each later one too."""

    def __init__(self, names: Iterable[str], happens: Callable[[], object]) -> None:
        super().__init__()
        self.calls_left: int | None = None
        self._happens = happens
        self.before |= dict.fromkeys(names, self._count)

    def _count(self, *_: Any) -> None:
        if self.calls_left is None:
            return
        if self.calls_left == 0:
            self._happens()
        self.calls_left -= 1


class MortalFiles(CountedFiles):
    """Ends like a killed process: after `calls_left` changes nothing reaches the disk any more."""

    def __init__(self) -> None:
        super().__init__(CHANGES | SYNCS | {"open_unnamed"}, _is_dead)


def _is_dead() -> NoReturn:
    raise OSError(errno.EIO, "the process is dead")
