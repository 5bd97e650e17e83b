"""Read a queue's index from its folder when an operation needs it."""

from __future__ import annotations

from functools import partial

from mq.commit.operation import InWorker, Operation, Shared
from mq.errors import StoreUnavailable
from mq.names import QueueName
from mq.spool.queue.listing import Listing, list_queue
from mq.store.holding import hold
from mq.store.index.ready_queue import ReadyQueue
from mq.store.shared_state import Workspace

MAX_LISTINGS = 4
"""How many times a queue is listed for one operation: it may be deleted and made again."""


def listing(work: Workspace, queue: QueueName) -> Shared:
    """Return what an operation yields to have the queue's index read from its folder. One listing
    serves all operations that ask for it meanwhile. Raises QueueNotFound, StoreUnavailable at the
    `yield`."""
    return Shared(f"list {queue}", partial(_list, work, queue))


def load_index(work: Workspace, queue: QueueName) -> Operation[ReadyQueue]:
    """Return the queue's index, which is listed first if need be. Raises QueueNotFound,
    StoreUnavailable."""
    for _ in range(MAX_LISTINGS):
        ready = work.loaded_index(queue)
        if ready is not None:
            return ready
        yield listing(work, queue)
    raise being_made_again(queue)


def find_space(work: Workspace, queue: QueueName, messages: int = 1) -> Operation[None]:
    """List the queue to see whether its limit leaves room for more messages. On return the queue is
    held. Raises StoreUnavailable if there is no room, and QueueNotFound."""
    for _ in range(MAX_LISTINGS):
        yield listing(work, queue)
        yield from hold(work, queue)
        if work.knows_space(queue, messages):
            return
    raise being_made_again(queue)


def being_made_again(queue: QueueName) -> StoreUnavailable:
    return StoreUnavailable(f"queue {queue} is being made again; try again")


def relist(work: Workspace, queue: QueueName) -> Operation[None]:
    """List the queue if that could tell its index something new. Raises QueueNotFound,
    StoreUnavailable."""
    ready = work.loaded_index(queue)
    if ready is None or work.may_have_changed(queue, ready):
        yield listing(work, queue)


def _list(work: Workspace, queue: QueueName) -> Operation[None]:
    # The queue's folder is watched first: what comes while the worker lists it is an event.
    if work.loaded_index(queue) is None:
        work.ready.forget(queue)
    ready = work.ready.begin_listing(queue)
    found: Listing | None = None
    try:
        found = yield InWorker(list_queue, work.spool, queue, ready)
    finally:
        ready.end_listing(found)
