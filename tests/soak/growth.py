"""Whether a process takes more and more memory or descriptors while it does the same things.

Messages take memory while they are there, as docs/storage.md says, and Python keeps what it has
taken for later. What a single request or a long listing takes for a moment does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

BYTES_FOR_MESSAGE = 190
"""The most that a process takes for each message that it knows of."""

MAX_GROWTH = 1.05
MAX_MORE_DESCRIPTORS = 8
"""Files that are open for requests just then; connections do not change."""

LEAST_SAMPLES = 9


class Sample(NamedTuple):
    """At a time in s, what a process has open at the least, its resident memory, and how many
    messages are there that it knows of."""

    at: float
    descriptors: int
    resident_kib: int
    messages: int


class Growth(NamedTuple):
    """By how much the resident memory grew, apart from what more messages take, and how many more
    descriptors there are."""

    memory: float
    descriptors: int

    def failures(self, command: str) -> list[str]:
        found = []
        if self.memory > MAX_GROWTH:
            found.append(f"the memory of {command} grew to {self.memory:.3f} of what it was")
        if self.descriptors > MAX_MORE_DESCRIPTORS:
            found.append(f"{command} has {self.descriptors} more descriptors than before")
        return found


def growth_of(samples: Sequence[Sample], settled_at: float) -> Growth | None:
    """Compare the last third of the samples after `settled_at` with the first third of them.
    Returns None if there are too few to tell."""
    settled = [each for each in samples if each.at >= settled_at]
    if len(settled) < LEAST_SAMPLES:
        return None
    third = len(settled) // 3
    first, last = settled[:third], settled[-third:]
    most_before = max(each.messages for each in samples if each.at <= first[-1].at)
    most = max(each.messages for each in samples)
    for_messages_kib = (most - most_before) * BYTES_FOR_MESSAGE / 1024
    before_kib = median(each.resident_kib for each in first)
    after_kib = median(each.resident_kib for each in last) - for_messages_kib
    open_before, open_after = (min(e.descriptors for e in part) for part in (first, last))
    return Growth(after_kib / before_kib, open_after - open_before)
