"""Queues that a reader names one by one, or by a pattern as in a shell."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from mq.names import DEAD_SUFFIX, QueueName


def match_queues(patterns: tuple[str, ...], existing: Sequence[str]) -> list[QueueName]:
    """Return the queues that are named or matched, in order; without a pattern all match. A pattern
    leaves out queues of dead letters unless it ends in `.dead` itself. Names that do not exist are
    passed on as they are."""
    found: list[QueueName] = []
    for pattern in patterns or ("*",):
        if not is_pattern(pattern):
            names = [pattern]
        else:
            names = sorted(fnmatch.filter(existing, pattern))
            if not pattern.endswith(DEAD_SUFFIX):
                names = [name for name in names if not name.endswith(DEAD_SUFFIX)]
        found += [QueueName(name) for name in names if name not in found]
    return found


def is_pattern(name: str) -> bool:
    return any(letter in name for letter in "*?[")
