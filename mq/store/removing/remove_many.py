"""Remove several messages at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation, Together, unavailable
from mq.errors import MQError, QueueLocked, QueueNotFound
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name
from mq.spool.message.held import Lost
from mq.store.removing.remove import (
    ABSENT,
    has_one_name,
    move_on,
    remove,
    unsynced_absence,
    unsynced_removal,
)
from mq.store.removing.remove_under_lease import UnderLease, move_together, remove_leased
from mq.store.shared_state import Workspace

Removal = tuple[QueueName, MessageId, frozenset[int] | None]
"""A message to be removed; with leases, only under one of them."""

_AT_ONCE = 64
"""This many are removed in one go: under leases all of them are open together."""

_DELAY, _REMOVE = Folder.DELAY, Folder.REMOVE

_Moved = Folder | Exception | None
"""The folder that a message was moved out of, or what is wrong with it; None if another process
holds its lock."""


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
    """Remove several messages of a queue under one barrier. Returns what is wrong with each, None
    for those that are removed. Raises QueueNotFound, StoreUnavailable."""
    with suppress(QueueNotFound):  # Each removal finds that out.
        work.require_queue(queue)
    removals: list[Removal] = [(queue, each, leases) for each in ids]
    outcomes = yield from remove_each(work, removals)
    lost = [each for each in outcomes if isinstance(each, QueueNotFound)]
    if lost and len(lost) == len(outcomes):
        raise lost[0]
    busy = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Lost)]
    if busy:
        late: list[Any] = yield Together([removal(work, *removals[number]) for number in busy])
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
    work: Workspace, removals: Sequence[Removal]
) -> Operation[list[Exception | Lost | None]]:
    """Do what `removal` does, for several messages under one barrier, without waiting for other
    processes. Returns what is wrong with each, None for those that are removed, and Lost.BUSY for
    one that another process holds, which is as it was."""
    outcomes: list[_Moved] = []
    for start in range(0, len(removals), _AT_ONCE):
        outcomes += _move_together(work, removals[start : start + _AT_ONCE])
    return (yield from _sync_moved(work, removals, outcomes))


def _move_together(work: Workspace, removals: Sequence[Removal]) -> list[_Moved]:
    """Move messages to `remove`."""
    lost = _out_of_reach(work, removals)
    bare = [n for n, each in enumerate(removals) if each[2] is None and each[0] not in lost]
    if len(bare) == len(removals):
        return _move_bare(work, removals)
    leased = [n for n, each in enumerate(removals) if each[2] is not None and each[0] not in lost]
    if len(leased) == len(removals):
        return _move_leased(work, removals)
    outcomes: list[_Moved] = [lost.get(queue) for queue, _, _ in removals]
    for numbers, way in ((bare, _move_bare), (leased, _move_leased)):
        moved = way(work, [removals[number] for number in numbers])
        for number, outcome in zip(numbers, moved, strict=True):
            outcomes[number] = outcome
    return outcomes


def _out_of_reach(
    work: Workspace, removals: Iterable[Removal]
) -> dict[QueueName, QueueNotFound | QueueLocked | OSError]:
    """Hold the queues of which messages are removed under leases. Returns those of all queues that
    are missing, locked, or cannot be looked at, with the error that says so."""
    found: dict[QueueName, QueueNotFound | QueueLocked | OSError] = {}
    for queue, under_lease in {(queue, leases is not None) for queue, _, leases in removals}:
        try:
            if under_lease:
                work.hold_queue(queue)
            else:
                work.require_queue(queue)
        except (QueueNotFound, QueueLocked, OSError) as error:
            found[queue] = error
    return found


def _sync_moved(
    work: Workspace, removals: Sequence[Removal], outcomes: Sequence[_Moved]
) -> Operation[list[Exception | Lost | None]]:
    """Issue one barrier for all that were moved, or that another moved. Returns what `remove_each`
    returns."""
    moved = _count_moved(removals, outcomes)
    unsynced = [unsynced_removal(work, source, queue) for queue, source in moved]
    if sum(moved.values()) < len(outcomes):
        pairs = zip(removals, outcomes, strict=True)
        unsynced += [unsynced_absence(each[0]) for each, why in pairs if isinstance(why, ABSENT)]
    if unsynced:
        folders = dict.fromkeys(name for each in unsynced for name in each.folders)
        implied = {name for each in unsynced for name in each.implied}
        is_all = any(each.has_closed_files for each in unsynced)
        yield Unsynced((), tuple(folders), is_all, tuple(implied), len(outcomes))
    for (queue, source), number in moved.items():
        if source is not _REMOVE:
            work.counts.of(queue).removed += number
    return [None if each is _DELAY else _wrong_with(each) for each in outcomes]


def _count_moved(
    removals: Sequence[Removal], outcomes: Sequence[_Moved]
) -> Mapping[tuple[QueueName, Folder], int]:
    """Return how many were moved, by queue and the folder that they were moved out of."""
    if outcomes.count(_DELAY) == len(outcomes):  # Nearly always, and quicker.
        queues = Counter([queue for queue, _, _ in removals])
        return {(queue, _DELAY): number for queue, number in queues.items()}
    pairs = zip(removals, outcomes, strict=True)
    return Counter([(each[0], source) for each, source in pairs if isinstance(source, Folder)])


def _wrong_with(outcome: _Moved) -> Exception | Lost | None:
    """Return what is wrong with one message, as `remove_each` does."""
    if isinstance(outcome, Folder):
        return None
    if outcome is None or isinstance(outcome, QueueLocked):
        return Lost.BUSY
    return unavailable(outcome) if isinstance(outcome, OSError) else outcome


def _move_bare(work: Workspace, removals: Sequence[Removal]) -> list[_Moved]:
    """Move messages of queues that are there, without a lease. Those that are in `delay` are moved
    in one go. Returns for each what `move_on` returns or raises."""
    spool, names = work.spool, [file_name(queue, each) for queue, each, _ in removals]
    codes = spool.moves.rename_all(spool.opened(_DELAY), spool.opened(_REMOVE), names)
    if not any(codes) and has_one_name(work):
        return [_DELAY] * len(names)
    outcomes: list[_Moved] = []
    for (queue, message_id, _), code in zip(removals, codes, strict=True):
        try:
            outcomes.append(move_on(work, queue, message_id, code))
        except Exception as error:
            outcomes.append(error)
    return outcomes


def _move_leased(work: Workspace, removals: Sequence[Removal]) -> list[_Moved]:
    """Move messages of queues that are held, each under its lease."""
    return move_together(work, cast(Sequence[UnderLease], removals))
