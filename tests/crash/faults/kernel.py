"""Faults at the system call, beneath `Files`: also for looks (stat, listings) and short writes.

Only calls that MQ's own modules make count; those of the event loop and of the test do not.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from mq.disk import calls
from mq.disk.files import Files

_OURS = ("mq.", "mq_mover.", "mq_reaper.", "vsqs.")

_CALLS = (
    "chmod", "close", "dup2", "fstat", "fsync", "ftruncate", "getxattr", "link", "listdir", "lstat",
    "mkdir", "open", "pread", "pwrite", "removexattr", "rename", "rmdir", "scandir", "setxattr",
    "stat", "statvfs", "unlink", "utime", "write",
)  # fmt: skip

_TAKES_ROOM = {"write", "pwrite", "link", "mkdir", "setxattr", "rename", "renameat2", "fsync"} | {
    "syncfs"
}
_CHANGES = _TAKES_ROOM | {"chmod", "ftruncate", "removexattr", "rmdir", "unlink", "utime"}
_TOLD_LATE = (errno.ENOSPC, errno.EDQUOT)
_NEW_FILE = os.O_CREAT | (os.O_TMPFILE & ~os.O_DIRECTORY)
_TO_WRITE = os.O_CREAT | os.O_WRONLY | os.O_RDWR

SHORT_WRITE = 0
"""In place of an errno: a write writes half of what it was given."""


class Fault(NamedTuple):
    """`code` comes at one call, or at every one that it can strike from there on."""

    code: int
    lasts: bool

    def __str__(self) -> str:
        name = errno.errorcode[self.code] if self.code else "short-write"
        return f"{name}-{'until-relief' if self.lasts else 'once'}"


class Call(NamedTuple):
    name: str
    arguments: tuple[Any, ...]


class Ended(BaseException):
    """Raised at the next system call of a thread that is to end; close(2) it still does."""


class Kernel:
    """Stands between MQ and the system calls for one test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._lock = threading.Lock()
        self._fault: Fault | None = None
        self._ahead = 0
        self._ending: threading.Thread | None = None
        self.calls: list[str] = []
        """The names of the calls since `arm`."""
        self._made: list[Call] = []
        self.struck: list[str] = []
        """Those that failed."""
        # The native part would make calls that do not come by here.
        monkeypatch.setattr(calls, "_native", None)
        for name in _CALLS:
            monkeypatch.setattr(os, name, self._patched(name, getattr(os, name)))
        for name in ("flock", "fcntl"):
            monkeypatch.setattr(fcntl, name, self._patched(name, getattr(fcntl, name)))

    def arm(self, fault: Fault | None = None, index: int = 0) -> None:
        """Count from here; of the calls that can fail with `fault`, it comes at that of `index`. A
        disk that is full does not say so to fstat(2)."""
        with self._lock:
            self._fault, self._ahead = fault, index
            self.calls, self._made, self.struck = [], [], []

    def places(self, code: int) -> int:
        """Return how many of the calls since `arm` can be the first that fails with `code`."""
        return sum(_can_come(code, call) for call in self._made)

    def relieve(self) -> None:
        with self._lock:
            self._fault = None

    def beneath(self, files: Files) -> Files:
        """The same `files`, whose calls through ctypes pass here too."""
        files._libc = _Libc(self, files._libc)  # type: ignore[assignment]
        return files

    def end(self, thread: threading.Thread) -> None:
        """Let `thread` raise Ended at its next call."""
        self._ending = thread

    def strikes(self, call: Call) -> int | None:
        """Note a call; the errno it fails with, if it does."""
        if threading.current_thread() is self._ending and call.name != "close":
            raise Ended
        with self._lock:
            self.calls.append(call.name)
            self._made.append(call)
            fault = self._fault
            if fault is None or not self._comes(fault, call):
                return None
            self.struck.append(call.name)
            return fault.code

    def _comes(self, fault: Fault, call: Call) -> bool:
        if self._ahead < 0:
            return fault.lasts and _can_strike(fault.code, call)
        self._ahead -= _can_come(fault.code, call)
        return self._ahead < 0

    def _patched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if not sys._getframe(1).f_globals.get("__name__", "").startswith(_OURS):
                return real(*arguments, **named)
            if name == "fcntl" and arguments[1] == fcntl.F_GETFL:
                # Asks nothing of the file system: it never fails.
                return real(*arguments)
            code = self.strikes(Call(name, arguments))
            if code is None:
                return real(*arguments, **named)
            if code == SHORT_WRITE:
                fd, data = arguments
                return real(fd, memoryview(data)[: max(len(data) // 2, 1)])
            if name == "close":
                # Linux lets go of the descriptor whatever close(2) says.
                real(*arguments)
            raise OSError(code, os.strerror(code))

        return call


class _Libc:
    """The calls that `Files` makes through ctypes."""

    def __init__(self, kernel: Kernel, libc: ctypes.CDLL) -> None:
        self._kernel = kernel
        self._libc = libc

    def renameat2(self, *arguments: Any) -> int:
        return self._call("renameat2", arguments)

    def syncfs(self, *arguments: Any) -> int:
        return self._call("syncfs", arguments)

    def sync_file_range(self, *arguments: Any) -> int:
        return self._call("sync_file_range", arguments)

    def fstatfs(self, *arguments: Any) -> int:
        return self._call("fstatfs", arguments)

    def faccessat(self, *arguments: Any) -> int:
        return self._call("faccessat", arguments)

    def _call(self, name: str, arguments: tuple[Any, ...]) -> int:
        code = self._kernel.strikes(Call(name, arguments))
        if not code:
            return int(getattr(self._libc, name)(*arguments))
        ctypes.set_errno(code)
        return -1


def _can_come(code: int, call: Call) -> bool:
    """Whether a call can be the first that fails. Over NFS close(2) may tell of what was written
    before."""
    return _can_strike(code, call) or (call.name == "close" and code in _TOLD_LATE)


def _can_strike(code: int, call: Call) -> bool:
    """Which calls a lasting trouble strikes. A dead disk or server strikes all."""
    opens = call.name == "open"
    if code == SHORT_WRITE:
        return call.name == "write"
    if code == errno.EMFILE:
        return opens
    if code in _TOLD_LATE:
        return call.name in _TAKES_ROOM or (opens and bool(call.arguments[1] & _NEW_FILE))
    if code == errno.EROFS:
        return call.name in _CHANGES or (opens and bool(call.arguments[1] & _TO_WRITE))
    return True
