"""File system events as they come at the worst time."""

from __future__ import annotations

from typing import Any

import inotify_simple
import pytest


def one_event_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each read of events return one of them, as if it came just after that."""
    read_all = inotify_simple.INotify.read
    come: dict[int, list[Any]] = {}

    def read_one(of: inotify_simple.INotify, *waits: Any) -> list[Any]:
        events = come.setdefault(of.fileno(), [])
        events += read_all(of, *waits)
        return [events.pop(0)] if events else []

    monkeypatch.setattr(inotify_simple.INotify, "read", read_one)
