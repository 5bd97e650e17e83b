"""What waits in each queue: a cache of the folders, in the order of publication.

The server adds what it delivers, file system events tell of what others do, and a listing finds
what both missed. An entry whose message is gone costs a receive one failed open. So a receive need
not list a folder, and no message is out of reach.

Used by the committer alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import structlog

from mq.command.logs import Once
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, is_message_id
from mq.spool.queue.listing import key_of, may_be_in
from mq.spool.spool import Spool
from mq.spool.watch import Change, Watch
from mq.store.index.ready_queue import ReadyQueue

DRAIN_SECONDS = 0.01
"""How long events may wait until the index hears of them. Everyone waits while a server under load
takes in those of its own moves, 5 ms for what a tenth of a second brings."""

log = structlog.get_logger(__name__)

_ALL_QUEUES = "/"
"""The name of the folder `queues` among those that are watched, which go by the names of their
queues."""


class ReadyQueues:
    """The index of every queue in use, fed by file system events where the system has them.

    `came` is called with a queue and the number of its new messages, or for a new look.
    """

    def __init__(self, spool: Spool) -> None:
        self.came: Callable[[QueueName, int], None] = lambda queue, count: None
        self._spool = spool
        self._queues: dict[str, ReadyQueue] = {}
        self._last_drain = 0.0
        self._is_drained = False
        self._report_unwatched = Once(_report_unwatched)
        self.watch = self._start_watch()

    def _start_watch(self) -> Watch | None:
        try:
            watch = Watch()
            # Of a folder that is open the kernel reports only that its name is gone.
            watch.add(_ALL_QUEUES, f"/proc/self/fd/{self._spool.queues.fd}/.")
        except OSError as error:
            log.warning("no file system events; listings only", error=str(error))
            return None
        return watch

    def close(self) -> None:
        if self.watch is not None:
            self.watch.close()

    def names(self) -> list[QueueName]:
        return [QueueName(name) for name in self._queues]

    def get(self, queue: QueueName) -> ReadyQueue | None:
        return self._queues.get(queue)

    def begin_listing(self, queue: QueueName) -> ReadyQueue:
        """Watch first: what arrives from here on is an event, what was there is in the listing."""
        ready = self._queues.get(queue)
        if ready is None:
            ready = self._queues[queue] = ReadyQueue(lambda count: self.came(queue, count))
        if self.watch is not None and not self.watch.has(queue):
            self._add_watch(self.watch, queue, ready)
        ready.begin_listing()
        return ready

    def forget(self, queue: QueueName) -> None:
        """Forget a queue that must be listed again: its folder has changed, or events were lost."""
        self._spool.queues.drop(queue)
        if self._queues.pop(queue, None) is not None:
            if self.watch is not None:
                self.watch.drop(queue)
            self.came(queue, 1)

    def add(self, queue: QueueName, message_id: MessageId, key: str | None = None) -> None:
        """Note that the server itself put a message into the queue. Without
        `key` its key is looked up; an id that this server has just made is its own."""
        ready = self._queues.get(queue)
        if ready is None:
            return
        if key is None:
            self._came(queue, ready, message_id)
        else:
            ready.add(key)

    def discard(self, queue: QueueName, message_id: MessageId) -> None:
        """Note that the server itself took a message out of the queue."""
        ready = self._queues.get(queue)
        if ready is not None:
            ready.discard(message_id)

    def restore(self, queue: QueueName, message_id: MessageId) -> None:
        """Put a message back that an operation passed over: it is there as before, so nobody is
        told. If it has left meanwhile, the event may have been taken in by now."""
        key = key_of(self._spool, queue, message_id)
        if queue in self._queues and key is not None and may_be_in(self._spool, queue, message_id):
            self._queues[queue].restore(key)

    def _add_watch(self, watch: Watch, queue: QueueName, ready: ReadyQueue) -> None:
        """Watch a queue's folder. If the system's limits do not allow that, the next listing tries
        again."""
        try:
            opened = self._spool.queues.open(queue)
            watch.add(queue, f"/proc/self/fd/{opened.fd}/.")
            ready.watched_inode = os.fstat(opened.fd).st_ino
        except (FileNotFoundError, NotADirectoryError):
            pass  # It was deleted just now, and is listed again when it is made again.
        except OSError as error:
            self._report_unwatched(queue, str(error))

    def begin_round(self) -> None:
        self._is_drained = False

    def drain_once(self) -> None:
        """Take in all events, unless that was done in this round."""
        if not self._is_drained:
            self._is_drained = True
            self.drain()

    def drain_sometimes(self, now: float) -> None:
        """Take in events before the kernel's queue of them overflows."""
        if now - self._last_drain > DRAIN_SECONDS:
            self._last_drain = now
            self.drain()

    def drain(self) -> None:
        """Take in all events so far. Only the last one of each name counts."""
        if self.watch is None:
            return
        changes = self.watch.read_last()
        if not changes:
            return
        if Change.OVERFLOW in [change for _, change, _ in changes]:
            log.warning("file system events were lost; listing again")
            for queue in self.names():
                self.forget(queue)
            return
        for folder, change, names in changes:
            if folder == _ALL_QUEUES:
                for name in names:
                    self._forget_if_replaced(QueueName(name))
            elif change is Change.FOLDER_WENT:
                self.forget(QueueName(folder))
            elif (ready := self._queues.get(folder)) is None:
                continue
            elif change is Change.WENT:
                ready.discard_all(names)
            else:
                self._take_in(QueueName(folder), ready, names)

    def _take_in(self, queue: QueueName, ready: ReadyQueue, names: Sequence[str]) -> None:
        for name in names:
            if name in ready:
                ready.note_there(name)
            elif not ready.note_arrival_if_taken(name) and is_message_id(name):
                self._came(queue, ready, name)

    def _forget_if_replaced(self, queue: QueueName) -> None:
        """Forget a queue whose name was made, moved or removed, unless the name still leads to the
        folder that is watched: that this one was made is an event too. If the disk does not say
        where the name leads, a listing will.

        While a folder is open here its number is not given to another one, and the kernel reports
        the end of a folder that is not open.
        """
        ready = self._queues.get(queue)
        if ready is None:
            self.came(queue, 1)  # Requests may wait all the same: for the end of a pause.
            return
        try:
            inode = self._spool.inode(Folder.QUEUES, queue)
        except OSError:
            inode = None
        if inode != ready.watched_inode:
            self.forget(queue)

    def _came(self, queue: QueueName, ready: ReadyQueue, message_id: str) -> None:
        key = key_of(self._spool, queue, message_id)
        if key is not None:
            ready.add(key)


def _report_unwatched(queue: str, why: str) -> None:
    log.warning("queue is not watched; listings only", queue=queue, error=why)
