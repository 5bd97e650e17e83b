"""What a forked process must not share with its parent: connections, random numbers, locks."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Starting(Protocol):
    def start(self) -> None:
        """Forget everything of the parent's. Locks that were held at the fork stay held."""


_starting: WeakSet[Starting] = WeakSet()
"""A hook of fork cannot be unregistered, so one function is registered for all."""


def start_anew_in_children(one: Starting) -> None:
    """Have `one.start()` called in every forked process while `one` lives: before anything else
    runs there, so that no thread sees what was the parent's."""
    _starting.add(one)


def _start_all() -> None:
    for one in list(_starting):
        one.start()


os.register_at_fork(after_in_child=_start_all)
