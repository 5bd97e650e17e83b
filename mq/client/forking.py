"""A fork: connections, random numbers and locks, which a forked process must not share with its
parent."""

from __future__ import annotations

import os
from typing import Never, Protocol
from weakref import WeakSet


class Starting(Protocol):
    def start(self) -> None:
        """Forget everything of the parent. Locks that were held at the fork stay taken."""


class Unpicklable:
    """Goes to a child by a fork, and to no other process."""

    def __reduce__(self) -> Never:
        raise TypeError(
            "a client has connections: neither it nor its queues and messages can be pickled or "
            "copied; make a client in each process"
        )


_starting: WeakSet[Starting] = WeakSet()
"""One function is registered for all of these, because a hook of fork cannot be taken back."""


def start_anew_in_children(one: Starting) -> None:
    """Have `one.start()` called in every forked process while `one` lives. It is called before
    anything else runs there, so that no thread sees what belonged to the parent."""
    _starting.add(one)


def _start_all() -> None:
    for one in list(_starting):
        one.start()


os.register_at_fork(after_in_child=_start_all)
