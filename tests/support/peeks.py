"""Peeks over HTTP, and what they must leave alone."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.batches import lines_of
from tests.support.wire import Wire, WireAnswer


def peek(wire: Wire, queue: str, more: str = "") -> WireAnswer:
    return wire.request("GET", f"/{queue}/messages?peek{more}")


def ids_behind(wire: Wire, queue: str, after: str, most: int = 10) -> list[str]:
    answer = peek(wire, queue, f"&max={most}&after={after}")
    return [line["id"] for line in lines_of(answer)] if answer.status == 200 else []


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    """Return everything about every file, and all about folders but when they were last listed."""
    found: dict[str, tuple[object, ...]] = {}
    for path in root.rglob("*"):
        status = path.lstat()
        times = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)
        if path.is_dir():
            found[str(path)] = times
            continue
        names = os.listxattr(path, follow_symlinks=False)
        attributes = {name: os.getxattr(path, name, follow_symlinks=False) for name in names}
        found[str(path)] = (*times, status.st_atime_ns, attributes)
    return found
