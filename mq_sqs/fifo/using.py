"""Have a FIFO queue in memory, read from its files if need be, before anything is done to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from mq.commit.barrier import Unsynced
from mq.commit.operation import InWorker, Operation, Pause, Shared
from mq.config import DEDUPLICATION_SECONDS, SECOND_NS
from mq.ids import id_of_key
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.spool.message.held import Lost, may_be_message
from mq.spool.message.seal import due_ns
from mq.spool.queue.listing import key_of
from mq.store.holding import hold
from mq.store.indexing import being_made_again, load_index
from mq.store.shared_state import Workspace
from mq_sqs.fifo.elsewhere import SentAsk, read_sent
from mq_sqs.fifo.fifo_queue import FifoQueue, FifoQueues, purged_ns_of, scope_of
from mq_sqs.fifo.loading import (
    FoundMessage,
    HiddenMessage,
    read_coming,
    read_hidden,
    read_ready,
)

T = TypeVar("T")

_READ_AT_ONCE = 1000
"""After this many messages other operations have their turn."""

_TRIES = 100
_PAUSE_SECONDS = 0.002

_CTIME_LAG_NS = SECOND_NS
"""The kernel's time of a change may be a tick behind, and the time in an id ahead of the clock."""

_AGAIN_NS = SECOND_NS // 50
"""A message that is overdue and still hidden is looked for again after that: the mover comes for it
in about as long."""


def use(work: Workspace, fifo: FifoQueues, queue: QueueName) -> Operation[FifoQueue]:
    """Return the queue in memory. On return it is held, and every message is known.

    Raises QueueNotFound, and StoreUnavailable also if another process has the FIFO queues.
    """
    fifo.require_ownership(work)
    for _ in range(_TRIES):
        yield from hold(work, queue)
        state = fifo.find(work, queue)
        if state is None:
            yield Shared(f"load {queue}", partial(_load, work, fifo, queue))
        elif state.unread:
            yield Shared(f"read {queue}", partial(_read_unread, work, state))
        else:
            return state
    raise being_made_again(queue)


def look_at_overdue(work: Workspace, state: FifoQueue, at_once: int) -> None:
    """Look for up to `at_once` messages that should have come back by now. No event tells of one
    that went to the dead letters. Raises OSError; those that were not looked for are later on."""
    overdue = state.pop_overdue(work.clock_ns(), at_once)
    looked = 0
    try:
        for message_id in overdue:
            look_again(work, state, message_id)
            looked += 1
    finally:
        for message_id in overdue[looked:]:
            state.expect(message_id, work.clock_ns() + _AGAIN_NS)


def look_again(work: Workspace, state: FifoQueue, message_id: str) -> None:
    """Find out where a message is that counts as hidden here. It is looked for in the order of its
    way: what is no longer at one place is at the next, or gone, because no other process receives.
    Raises OSError.
    """
    available = state.groups.available
    queue, now_ns, spool = state.name, work.clock_ns(), work.spool
    if message_id in state.taking:
        state.expect(message_id, now_ns + _AGAIN_NS)
        return
    own = MessageId(message_id)
    name = file_name(queue, own)
    if spool.exists(Folder.NEW, name):
        state.expect(message_id, now_ns + _AGAIN_NS)
    elif (status := spool.status(Folder.DELAY, name)) is not None:
        state.expect(message_id, max(due_ns(status, 0), now_ns + _AGAIN_NS))
    elif spool.exists(Folder.QUEUES, queue_path(queue, own)):
        key = key_of(spool, queue, own)
        if key is not None and not state.ready.restore(key):
            state.came(key)
    else:
        state.ready.discard(message_id)
        state.forget(message_id)
    wake(work, state, available)


def wake(work: Workspace, state: FifoQueue, before: int) -> None:
    """Tell those who wait that more groups than before have a message to receive."""
    if state.groups.available > before:
        work.ready.came(state.name, state.groups.available - before)


def _load(work: Workspace, fifo: FifoQueues, queue: QueueName) -> Operation[None]:
    """Read a queue from its files, in the order of a message's way: one that moves on meanwhile is
    found further on. Its index is listed again, and followed from then on.

    What is being sent is not found if it goes from `new` to `delay` behind these readings, so they
    wait for its end; nothing more is sent meanwhile.
    """
    while fifo.is_sent_to(queue):
        yield Pause(_PAUSE_SECONDS)
    begun, since_ns = fifo.begin(queue), work.clock_ns() - DEDUPLICATION_SECONDS * SECOND_NS
    hidden: list[HiddenMessage] = yield InWorker(read_coming, work.spool, queue, work.report)
    hidden += yield InWorker(read_hidden, work.spool, Folder.DELAY, queue)
    work.ready.forget(queue)
    ready = yield from load_index(work, queue)
    settings = work.settings.of(queue)
    state = FifoQueue(queue, ready, scope_of(settings), purged_ns_of(settings))
    state.unread = ready.follow(state)
    yield from _each_in_turn(work, hidden, state.learn_hidden)
    work.ready.drain()
    latest = max([each.found.key for each in hidden] + list(state.unread.values()), default="")
    with fifo.reading(queue, state):
        yield from _read_unread(work, state)
    # From here on all that is sent is younger than the purge, also if the clock was set back since.
    purged_ns = state.purged_ns if work.ids.start_after(state.purged_ns) else 0
    sent = yield from _read_sent(work, fifo, SentAsk(queue, since_ns, purged_ns))
    yield from _each_in_turn(work, sent, state.learn_sent)
    latest = max([latest] + [each.key for each in sent])
    # What a killed gateway has sent may not be durable, and from here on it counts as sent.
    yield Unsynced((), (), has_closed_files=True)
    # Another process may have published here, by a clock that was set back since.
    work.ids.start_above(latest)
    fifo.enter(queue, state, begun)


def _each_in_turn(
    work: Workspace, found: Sequence[T], learn: Callable[[T, int], None]
) -> Operation[None]:
    """Have each learned, while other operations have their turns: there may be a million."""
    for start in range(0, len(found), _READ_AT_ONCE):
        for each in found[start : start + _READ_AT_ONCE]:
            learn(each, work.clock_ns())
        yield Pause(0.0)


def _read_sent(work: Workspace, fifo: FifoQueues, ask: SentAsk) -> Operation[list[FoundMessage]]:
    """Read what was sent to a queue and is not in it any more. Queues that ask while others are
    answered are answered together afterwards: each reading lists all that was removed."""
    fifo.asks[ask] = None
    try:
        while (found := fifo.asks[ask]) is None:
            yield Shared("read what was sent", partial(_answer_all, work, fifo))
        return found
    finally:
        del fifo.asks[ask]


def _answer_all(work: Workspace, fifo: FifoQueues) -> Operation[None]:
    asks = [ask for ask, found in fifo.asks.items() if found is None]
    sent = yield InWorker(read_sent, work.spool, asks, _changed_ns(work, asks))
    fifo.asks.update({ask: sent[ask.queue] for ask in asks if ask in fifo.asks})


def _changed_ns(work: Workspace, asks: Sequence[SentAsk]) -> int:
    """Return the ctime below which a folder has nothing that counts, by the kernel's clock. It is 0
    if another machine may have changed the folder by a clock of its own, or the clock was set back
    meanwhile. The time of a purge says nothing here: the clock may have been set back since."""
    age_ns = work.clock_ns() - min(each.since_ns for each in asks)
    now_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
    is_known = age_ns >= 0 and not work.files.is_of_network
    return now_ns - age_ns - _CTIME_LAG_NS if is_known else 0


def _read_unread(work: Workspace, state: FifoQueue) -> Operation[None]:
    available = state.groups.available
    while unread := list(state.unread.values()):
        for start in range(0, len(unread), _READ_AT_ONCE):
            keys = unread[start : start + _READ_AT_ONCE]
            found = yield InWorker(read_ready, work.spool, state.name, keys)
            now_ns = work.clock_ns()
            for key in keys:
                if key in found:
                    state.learn(found[key], now_ns)
                else:
                    _look_for_unread(work, state, key)
    wake(work, state, available)


def _look_for_unread(work: Workspace, state: FifoQueue, key: str) -> None:
    """Look for a message that was not there when it was to be read. If anything but a message has
    its name, it counts as gone: to wait for it would keep the queue waiting for ever."""
    message_id = id_of_key(key)
    place = queue_path(state.name, MessageId(message_id))
    if message_id not in state.unread:
        return
    status = work.spool.status(Folder.QUEUES, place)
    if status is not None and may_be_message(work.spool.files, status):
        return
    if status is not None:
        work.report(f"{Folder.QUEUES}/{place}", Lost.FOREIGN.value)
    state.ready.discard(message_id)
    state.forget(message_id)
