"""The queues that a message goes to: those that its request names, and the readers in their
settings `also`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mq.config import MAX_QUEUES
from mq.errors import InvalidRequest, StoreUnavailable
from mq.names import QueueName
from mq.store.shared_state import Workspace

Queues = tuple[QueueName, ...]

Ways = Mapping[QueueName | None, Queues]
"""The queues for the messages of a batch by the queue that their lines name; None for those whose
lines name none."""


def find_ways(work: Workspace, named: Iterable[QueueName | None], usual: Queues) -> Ways:
    """Return where the messages of a batch go. `named` has what their lines name, in place of the
    first of the `usual` queues. Raises InvalidRequest for too many."""
    first, *also = usual
    ways = {each: _with_copies(work, (each or first, *also)) for each in named}
    queues = {each for some in ways.values() for each in some}
    if len(queues) > MAX_QUEUES:
        raise InvalidRequest(
            f"{len(queues)} queues, with those that their settings also name; a message or a batch "
            f"goes to at most {MAX_QUEUES}"
        )
    return ways


def _with_copies(work: Workspace, named: Queues) -> Queues:
    """Return these queues, and those that their settings `also` name. Settings of the latter do not
    count, so that no circle of settings is a loop. One that is not there gets nothing, as if it had
    been deleted a moment later."""
    found = dict.fromkeys(named)
    for queue in named:
        for copy in work.settings.of(queue).also or ():
            if copy not in found and _is_there(work, queue, copy):
                found[copy] = None
    return tuple(found)


def _is_there(work: Workspace, queue: QueueName, copy: QueueName) -> bool:
    if work.spool.queues.is_there(copy):
        work.report_missing.forget(queue, copy)
        return True
    work.report_missing(queue, copy)
    return False


def explain_copy(
    work: Workspace, error: StoreUnavailable, named: Collection[QueueName]
) -> StoreUnavailable:
    """Return the error of a publish to the `named` queues. If the queue that is full is none of
    them, it says which of them has it in its setting `also`."""
    origins = sorted(each for each in named if error.full in (work.settings.of(each).also or ()))
    if not origins or error.full in named:
        return error
    return StoreUnavailable(
        f"{error}; by its setting also, what is published to {origins[0]} goes there too",
        full=error.full,
    )
