"""Hold a queue for the file calls that follow, once no purge has it to itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from mq.commit.operation import Operation
from mq.disk.file_work import FileWork
from mq.errors import QueueLocked
from mq.names import QueueName
from mq.store.patience import Patience, with_queue
from mq.store.shared_state import Workspace

T = TypeVar("T")


def hold(work: Workspace, queue: QueueName) -> Operation[None] | tuple[()]:
    """Hold a queue with `Workspace.hold_queue`, until the next `yield`. Returns what to `yield
    from`, which is nothing unless the queue is locked. Raises QueueNotFound, StoreUnavailable, now
    or then."""
    try:
        if not work.spool.queues.is_held(queue):
            work.hold_queue(queue)
    except QueueLocked:
        return once_unlocked(queue, lambda: work.hold_queue(queue))
    return ()


def hold_all(work: Workspace, queues: Sequence[QueueName]) -> Operation[None]:
    """Hold several queues until the next `yield`. Raises what `hold` raises, for each of them."""
    are_held = False
    while not are_held:
        for each in queues:
            yield from hold(work, each)
        # Those that were held before one had to be waited for are not any more.
        are_held = all(work.spool.queues.is_held(each) for each in queues)


def once_unlocked(queue: QueueName, attempt: Callable[[], T]) -> Operation[T]:
    """Return what the attempt returns. It is repeated as long as it raises QueueLocked, which means
    that it has done nothing."""

    def work() -> FileWork[T]:
        return attempt()
        yield

    return (yield from work_once_unlocked(queue, work))


def work_once_unlocked(queue: QueueName, make: Callable[[], FileWork[T]]) -> Operation[T]:
    """Do what `once_unlocked` does, for an attempt that is file work."""
    patience: Patience | None = None
    while True:
        try:
            return (yield from make())
        except QueueLocked:
            patience = patience or with_queue(queue)
            yield patience.pause()
