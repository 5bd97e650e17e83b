"""What the operations of one server share: the folders, the index, the clock, and what the current
round has asked of the disk already."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Set
from contextlib import contextmanager
from functools import partial

import structlog

from mq.command.logs import Once, report_left
from mq.config import ServerConfig
from mq.errors import (
    MessageNotFound,
    MQError,
    QueueIsFifo,
    QueueLocked,
    QueueNotFound,
    StoreUnavailable,
)
from mq.ids import ServerIds
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, is_fifo
from mq.spool.message.seal import Leases
from mq.spool.open_queues import NOT_A_QUEUE
from mq.spool.queue.known_settings import KnownSettings
from mq.spool.redelivery import report_living
from mq.spool.spark.finished import DoneBatches
from mq.spool.spool import Spool
from mq.spool.trouble import find_moved_folder
from mq.store.counts import OperationCounts
from mq.store.free_space import Floor, default_floor_bytes
from mq.store.hidden_counts import count_hidden
from mq.store.index.ready_queue import ReadyQueue
from mq.store.index.ready_queues import ReadyQueues
from mq.store.reservations import Reservations
from mq.store.shared_looks import SharedLooks

log = structlog.get_logger(__name__)


class Workspace:
    """The state that operations share. The committer alone uses it, except for those parts that say
    that they are for several threads.

    `ids` and `leases` make new ones. `ready` is what is known of the messages, `settings` of the
    queues, `finished_by_spark` of what Spark is done with. `hidden_counts` are made by queue.
    `undelivered` counts by queue what is published and not there yet. `batches_at_work` are names
    in `new` of this server's batches that have no id which others may publish meanwhile; threads
    that fill them enter theirs. `floor` is the room that the disk must keep, `counts` what was done
    so far. `report` logs once what cannot be placed or read, `report_living` what was received too
    often and is still in its queue, and `report_missing` a queue and one in its setting `also` that
    does not exist.
    """

    def __init__(
        self,
        spool: Spool,
        config: ServerConfig,
        request_sweep: Callable[[], None],
        granularity_ns: int = 1,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Take what a server has opened."""
        self.spool = spool
        self.files = spool.files
        self.config = config
        self.granularity_ns = granularity_ns
        self.clock_ns = clock_ns
        self.ids = ServerIds(clock_ns)
        self.ready = ReadyQueues(spool)
        self.hidden_counts = SharedLooks("count", partial(count_hidden, spool))
        self.finished_by_spark = DoneBatches(spool)
        self.settings = KnownSettings(spool.files, spool.queues, report_left)
        self.report = Once(report_left)
        self.report_living = Once(report_living)
        self.report_missing = Once(_report_missing)
        self.counts = OperationCounts()
        self.leases = Leases()
        self.reservations = Reservations(spool.files, str(spool.root))
        self.request_sweep = request_sweep
        self.undelivered: Counter[QueueName] = Counter()
        self.batches_at_work: set[str] = set()
        self._delivering: list[tuple[QueueName, Collection[MessageId], Set[str]]] = []
        self._folders: dict[QueueName, os.stat_result | None] = {}
        floor = config.min_free_bytes
        floor_bytes = default_floor_bytes(spool.root) if floor is None else floor
        self.floor = Floor(floor_bytes, lambda: spool.fd(Folder.NEW))
        self._room: int | StoreUnavailable | None = None

    def begin_round(self) -> None:
        """Forget what the last round knew. The disk is asked once in each round which queues there
        are and how much room is left."""
        self.end_calls()
        self._folders.clear()
        self._room = None
        self.ready.begin_round()
        self.ready.drain_sometimes(time.monotonic())

    def end_calls(self) -> None:
        """Let go of the round's queues and messages: its file calls are done, and its barrier comes
        next."""
        self.spool.queues.let_go_all()
        self.reservations.release()

    def require_queue(self, queue: QueueName) -> os.stat_result:
        """Return the status of the queue's folder. Raises QueueNotFound."""
        if queue not in self._folders:
            found = self.spool.status(Folder.QUEUES, queue)
            self._folders[queue] = found if self._is_queue(queue, found) else None
        status = self._folders[queue]
        if status is None:
            self.ready.forget(queue)
            raise no_queue(queue)
        return status

    def _is_queue(self, queue: QueueName, found: os.stat_result | None) -> bool:
        """Return whether it is a folder of MQ. What another user has put there, or mounted, is
        reported."""
        if found is None:
            return False
        is_ours = self.spool.queues.is_queue(found)
        if not is_ours:
            self.report(f"{Folder.QUEUES}/{queue}", NOT_A_QUEUE)
        return is_ours

    def hold_queue(self, queue: QueueName) -> None:
        """Require a queue, and share its folder's lock until the round's file calls are done.

        A deletion takes that lock exclusively before it looks for messages that are not in the
        folder (`mq.spool.queue.queues`). So it finds every message that is linked meanwhile, even
        if this process is killed right after the link, and a queue made again never sees that
        message. And a message that is taken out of the folder has its new name before the deletion
        looks there. Raises QueueNotFound, and QueueLocked (`mq.store.holding` waits).
        """
        queues = self.spool.queues
        if queues.is_held(queue):
            return
        try:
            self._folders[queue] = queues.hold(queue)
        except BlockingIOError as error:
            raise QueueLocked(
                f"queue {queue} cannot be used now: {error.strerror}; try again"
            ) from None
        except (FileNotFoundError, NotADirectoryError):
            self._folders.pop(queue, None)
            self.require_queue(queue)
            raise no_queue(queue) from None

    def loaded_index(self, queue: QueueName) -> ReadyQueue | None:
        """Return the queue's index, or None if it must be listed first: it never was, or the queue
        was deleted and made again. Raises QueueNotFound."""
        status = self._folders.get(queue) or self.require_queue(queue)
        ready = self.ready.get(queue)
        if ready is None or not ready.is_loaded or ready.inode != status.st_ino:
            return None
        return ready

    def may_have_changed(self, queue: QueueName, ready: ReadyQueue) -> bool:
        """Return whether a listing could find something that the index does not know."""
        return (
            time.monotonic() >= ready.next_listing
            and self.require_queue(queue).st_mtime_ns != ready.listed_mtime_ns
        )

    def sees_all_events(self, queue: QueueName) -> bool:
        """Return whether the system reports every change to the queue's folder. It does not report
        what another machine does."""
        watch = self.ready.watch
        return watch is not None and watch.has(queue) and not self.files.is_of_network

    def forget_queue(self, queue: QueueName) -> None:
        """Note that the queue was made or deleted within this round."""
        self.spool.queues.let_go(queue)
        self.spool.queues.drop(queue)
        self.settings.forget(queue)
        self._folders.pop(queue, None)

    def knows_space(self, queue: QueueName, messages: int = 1) -> bool:
        """Return whether the queue is known to have room for more messages, counting those that are
        ready and those on their way there from here. Returns False if its index must be listed
        first, to know that.

        Raises StoreUnavailable if it has no room, and QueueNotFound.
        """
        own = self.settings.of(queue).max_messages
        limit = self.config.max_queue_messages if own is None else own
        if not limit:
            return True
        ready = self.loaded_index(queue)
        if ready is None:
            return False
        if len(ready) + self.undelivered[queue] + messages > limit:
            self.ready.drain()
            ready = self.ready.get(queue)
            if ready is None:
                return False
        if len(ready) + self._coming(queue, ready) + messages <= limit:
            return True
        raise StoreUnavailable(
            f"queue {queue} has {len(ready)} of the {limit} ready messages that "
            f"{'--max-queue-messages' if own is None else 'its setting max-messages'} allows, "
            f"which leaves no room for {messages} more; receive and remove go on",
            full=queue,
        )

    def _coming(self, queue: QueueName, ready: ReadyQueue) -> int:
        """Return how many messages are on their way to the queue from here, and not in it yet."""
        there = [
            each
            for other, ids, gone in self._delivering
            if other == queue
            for each in ids
            if each in ready or each in gone
        ]
        return self.undelivered[queue] - len(there)

    @contextmanager
    def delivering(
        self, queue: QueueName, ids: Collection[MessageId], gone: Set[str]
    ) -> Iterator[None]:
        """Note, until the block ends, that a worker delivers these messages, which are in
        `undelivered`. Events tell of some before the worker is done: the index has them, or had
        them, and they are in `gone`."""
        delivery = queue, ids, gone
        self._delivering.append(delivery)
        try:
            yield
        finally:
            self._delivering = [each for each in self._delivering if each is not delivery]

    def end_delivery(self, queue: QueueName, messages: int) -> None:
        """Take messages out of `undelivered`: they are in the queue, or never will be. Nothing is
        kept for queues that have come and gone."""
        self.undelivered[queue] -= messages
        if not self.undelivered[queue]:
            del self.undelivered[queue]

    def require_room(self, length: int = 0) -> None:
        """Raise StoreUnavailable below the floor of free blocks or inodes, so that receive and
        remove, which need a little room, go on. It is raised too if `length` bytes, with those that
        the round has asked for already, would go below the floor."""
        if self._room is None:
            try:
                self._room = self.floor.room_bytes()
            except StoreUnavailable as error:
                self._room = error
        if isinstance(self._room, StoreUnavailable):
            raise StoreUnavailable(str(self._room), self._room.retry_after_seconds)
        if length > self._room:
            raise self.floor.shortage_of(length)
        self._room -= length


def _report_missing(queue: str, missing: str) -> None:
    why = "the setting also names a queue that does not exist"
    log.warning("no copies", queue=queue, missing=missing, why=why)


def refuse_fifo(work: Workspace, queue: QueueName) -> None:
    """Refuse to send, receive or move messages of a FIFO queue, which needs the order within their
    groups. Raises QueueIsFifo, or QueueNotFound if there is no such queue."""
    if is_fifo(queue):
        work.require_queue(queue)
        raise QueueIsFifo(
            f"queue {queue} is a FIFO queue: send, receive and move its messages through mq-sqs; "
            "here you can count, look at and delete them"
        )


def no_queue(queue: QueueName) -> QueueNotFound:
    return QueueNotFound(f"there is no queue {queue}; make it with PUT /{queue}")


def no_message(queue: QueueName, message_id: MessageId) -> MessageNotFound:
    return MessageNotFound(
        f"queue {queue} has no message {message_id}; it may have been removed and reaped"
    )


def not_there(work: Workspace, error: MQError) -> MQError:
    """Return `error`, which says that something is not there, unless that may be wrong: a move
    fails in the same way if a person has removed the folder that it goes to."""
    moved = find_moved_folder(work.spool)
    return error if moved is None else StoreUnavailable(moved)
