"""Remove several messages at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation, Together, unavailable
from mq.errors import MQError, QueueLocked
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name
from mq.spool.message.held import Lost
from mq.store.context import Workspace
from mq.store.remove import has_one_name, move_on, remove, unsynced_removal
from mq.store.remove_under_lease import LeasedRemover, remove_leased

Removal = tuple[MessageId, frozenset[int] | None]
"""A message to be removed; with leases, only under one of them."""

_AT_ONCE = 64
"""This many are removed in one go: under leases all of them are open together."""

_DELAY, _REMOVE = Folder.DELAY, Folder.REMOVE


def removal(
    work: Workspace, queue: QueueName, message_id: MessageId, leases: frozenset[int] | None
) -> Operation[None]:
    """Return the operation that removes a message; with `leases`, only under one of them."""
    if leases is None:
        return remove(work, queue, message_id)
    return remove_leased(work, queue, message_id, leases)


def remove_many(
    work: Workspace,
    queue: QueueName,
    ids: Sequence[MessageId],
    leases: frozenset[int] | None,
) -> Operation[list[MQError | None]]:
    """Remove several messages under one barrier. Returns what is wrong with each, None for those
    that are removed. Raises QueueNotFound, StoreUnavailable."""
    removals = [(each, leases) for each in ids]
    outcomes = yield from remove_each(work, queue, removals)
    busy = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Lost)]
    if busy:
        late: list[Any] = yield Together([removal(work, queue, *removals[n]) for n in busy])
        for number, outcome in zip(busy, late, strict=True):
            outcomes[number] = outcome
    failed: list[MQError | None] = []
    for each in outcomes:
        if each is not None and not isinstance(each, MQError):
            assert isinstance(each, Exception)
            raise each
        failed.append(each)
    return failed


def remove_each(
    work: Workspace, queue: QueueName, removals: Sequence[Removal]
) -> Operation[list[Exception | Lost | None]]:
    """Do what `removal` does, for several messages under one barrier, without waiting for other
    processes. Returns what is wrong with each, None for those that are removed, and Lost.BUSY for
    one that another process holds, which is as it was. Raises what concerns all of them."""
    work.require_queue(queue)
    outcomes: list[Folder | Exception | None] = []
    for start in range(0, len(removals), _AT_ONCE):
        outcomes += _move_together(work, queue, removals[start : start + _AT_ONCE])
    return (yield from _sync_moved(work, queue, outcomes))


def _move_together(
    work: Workspace, queue: QueueName, removals: Sequence[Removal]
) -> list[Folder | Exception | None]:
    """Move messages to `remove`. Returns for each the folder that it was moved out of, or what is
    wrong with it; None if another process holds its lock."""
    bare = [each for each, leases in removals if leases is None]
    moved = _move_some(work, queue, bare) if bare else []
    if len(bare) == len(removals):
        return moved
    leased = [(each, leases) for each, leases in removals if leases is not None]
    of_bare, of_leased = iter(moved), iter(LeasedRemover(work, queue).remove_together(leased))
    return [next(of_bare if leases is None else of_leased) for _, leases in removals]


def _sync_moved(
    work: Workspace, queue: QueueName, outcomes: Sequence[Folder | Exception | None]
) -> Operation[list[Exception | Lost | None]]:
    """Issue one barrier for all that were moved. Returns what `remove_each` returns."""
    moved = {each: number for each, number in Counter(outcomes).items() if isinstance(each, Folder)}
    if moved:
        came_from = {name for each in moved for name in unsynced_removal(each, queue).implied}
        yield Unsynced((), (_REMOVE,), implied=tuple(came_from), messages=len(outcomes))
        work.counts.of(queue).removed += sum(moved.values()) - moved.get(_REMOVE, 0)
    if moved.get(_DELAY) == len(outcomes):
        return [None] * len(outcomes)
    return [*map(_told, outcomes)]


def _told(outcome: Folder | Exception | None) -> Exception | Lost | None:
    if isinstance(outcome, Folder):
        return None
    if outcome is None or isinstance(outcome, QueueLocked):
        return Lost.BUSY
    return unavailable(outcome) if isinstance(outcome, OSError) else outcome


def _move_some(
    work: Workspace, queue: QueueName, ids: Sequence[MessageId]
) -> list[Folder | Exception | None]:
    """Move messages to `remove` without a lease. Those that are in `delay` are moved in one go.
    Returns for each what `move_on` returns or raises."""
    spool, names = work.spool, [file_name(queue, each) for each in ids]
    codes = spool.moves.rename_all(spool.opened(_DELAY), spool.opened(_REMOVE), names)
    outcomes: list[Folder | Exception | None] = []
    if not any(codes) and has_one_name(work):
        return [_DELAY] * len(ids)
    for message_id, code in zip(ids, codes, strict=True):
        try:
            outcomes.append(move_on(work, queue, message_id, code))
        except Exception as error:
            outcomes.append(error)
    return outcomes
