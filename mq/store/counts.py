"""What one server has done since it started: plain numbers, counted where it is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock


@dataclass(slots=True)
class OperationCounts:
    """Messages, and sweeps. The committer alone counts messages, except `corrupt`: sweeps run in
    other threads."""

    published: int = 0
    received: int = 0
    redelivered: int = 0
    removed: int = 0
    dead_lettered: int = 0
    expired: int = 0
    moved: int = 0
    corrupt: int = 0
    failed_sweeps: int = 0
    _lock: Lock = field(default_factory=Lock)

    def add_corrupt(self, number: int) -> None:
        with self._lock:
            self.corrupt += number

    def add_failed_sweep(self) -> None:
        with self._lock:
            self.failed_sweeps += 1
