"""The way out: publish over HTTP what Spark has committed.

    STAGING/out/queues/QUEUE/ID   committed; goes under the id it has
    STAGING/out/delay/QUEUE:ID    the same, to be hidden until its stamp

A batch is published under the ids that its messages have here; then it leaves the staging, durably,
before the next one is published. So a crash leaves at most one batch whose outcome is unknown. It
is published again, and the server knows the ids while the messages are there, and for `--keep` of
its reaper after they were removed.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice

from mq.client import BodyTooLarge, Client, IdTaken, NewMessage, QueueNotFound, Unavailable
from mq.config import MAX_BATCH_BYTES, MAX_BATCH_LINES
from mq.disk.calls import CHAINS_AT_ONCE, Chain, run
from mq.errors import MQError
from mq.lifecycle import Folder
from mq.names import QueueName, file_name
from mq.spool.spool import Spool
from pyspark_mq.by_url.committed import (
    Committed,
    delayed_messages,
    read_committed,
    ready_messages,
)
from pyspark_mq.by_url.servers import ServerChoice
from pyspark_mq.by_url.staging import make_staged_queue, reap_staged

LOCK_SECONDS = 60.0
"""How long a process that publishes out of the same staging puts no message away until it counts
as stopped."""


_REFUSED = (IdTaken, BodyTooLarge)
"""The server refused one message for what it is; any server would."""

log = logging.getLogger("pyspark_mq")


class NotForwarded(MQError):
    """The servers do not have what was committed; the text says what to do."""


class Forwarder:
    """Publishes everything that waits in a staging."""

    def __init__(self, spool: Spool, servers: ServerChoice) -> None:
        self._spool = spool
        self._servers = servers
        self._failed: list[str] = []

    def forward(self) -> None:
        """Publish all that waits, each queue in order. On return it is on the servers' stable
        media.

        Raises NotForwarded if a queue is gone, or if a message was refused for good and is in
        `corrupt` now; all others are published then. Raises ClientError; the rest then waits for
        the next call.
        """
        delayed = delayed_messages(self._spool)
        for queue in sorted({*self._spool.queue_names(), *delayed}):
            if queue not in delayed and not self._spool.names_if_any(Folder.QUEUES, queue):
                # The staging has a folder for each queue that it was ever used for.
                continue
            make_staged_queue(self._spool, queue)
            with ExitStack() as lock:
                self._take(lock, queue)
                ready, later = ready_messages(self._spool, queue), delayed.get(queue, [])
                try:
                    self._forward(queue, ready)
                    self._forward(queue, later)
                except QueueNotFound:
                    self._failed.append(self._no_queue(queue, len(ready) + len(later)))
        reap_staged(self._spool)
        if self._failed:
            raise NotForwarded("; ".join(self._failed))

    def _take(self, lock: ExitStack, queue: QueueName) -> None:
        """Take the lock of a queue. Another process may have it for long, while it publishes.
        Raises BlockingIOError if that one seems to be stopped: it puts no message away."""
        spool, seen = self._spool, None
        while True:
            try:
                folder = spool.fd(Folder.QUEUES)
                lock.enter_context(spool.files.locked_folder(folder, queue, LOCK_SECONDS))
            except BlockingIOError:
                waiting = {*spool.names_in_queue(queue), *spool.names(Folder.DELAY)}
                if waiting == seen:
                    raise
                seen = waiting
            else:
                return

    def _forward(self, queue: QueueName, waiting: list[Committed]) -> None:
        """Publish batch after batch. While the servers have one, the one before is unlinked and the
        next one is read."""
        messages = self._read(queue, waiting)
        batch = _next_request(messages)
        with ThreadPoolExecutor(1, "mq-forward") as publisher:
            while batch:
                publishing = publisher.submit(self._publish, queue, batch)
                reap_staged(self._spool)
                batch = _next_request(messages)
                publishing.result()

    def _publish(self, queue: QueueName, batch: list[tuple[Committed, NewMessage]]) -> None:
        """Publish messages and put them away: all at once, or fewer at a time, as long as the queue
        is too full for more. One that the server refuses is set aside."""
        at_once = len(batch)

        def publish(mq: Client) -> int:
            nonlocal at_once
            try:
                return len(mq.queue(queue).publish_many(each for _, each in batch[:at_once]))
            except Unavailable:
                at_once = max(1, at_once // 2)
                raise

        while batch:
            try:
                count = self._servers.ask(publish)
            except _REFUSED as error:
                if at_once > 1:
                    # One of them kept all from being published. Sending each by itself tells which.
                    at_once = 1
                    continue
                count = 1
                self._refuse(queue, batch[0][0], str(error))
            else:
                self.put_away(queue, [committed for committed, _ in batch[:count]])
            batch = batch[count:]

    def _refuse(self, queue: QueueName, committed: Committed, why: str) -> None:
        kept = self.set_aside(queue, committed)
        text = f"{committed.message_id} for queue {queue} was refused, and is {kept} now: {why}"
        log.error("%s", text)
        self._failed.append(text)

    def _no_queue(self, queue: QueueName, count: int) -> str:
        return (
            f"the write is committed, but the servers have no queue {queue}: its {count} messages "
            f"wait in {self._spool.root}; make the queue again, and any write with this staging "
            "publishes them, even one without rows; or remove "
            f"{self._spool.root}/queues/{queue}"
        )

    def set_aside(self, queue: QueueName, committed: Committed) -> str:
        """Move a message to `corrupt`. Returns its path there."""
        name = file_name(queue, committed.message_id)
        kept = self._spool.move_aside(committed.folder, committed.name, Folder.CORRUPT, name)
        return self._spool.path(Folder.CORRUPT, kept or name)

    def put_away(self, queue: QueueName, published: list[Committed]) -> None:
        """Move messages out of the staging, durably: the servers have them."""
        for at in range(0, len(published), CHAINS_AT_ONCE):
            some = published[at : at + CHAINS_AT_ONCE]
            outcomes = run(self._spool.files, [self._leaving(queue, each) for each in some])
            for committed, (_, code) in zip(some, outcomes, strict=True):
                self._require_left(queue, committed, code)
        self._spool.files.sync_file_system(self._spool.fd(Folder.REMOVE))

    def _leaving(self, queue: QueueName, committed: Committed) -> Chain:
        folder, name, message_id = committed
        target = file_name(queue, message_id)
        try:
            move, _keepers = self._spool.move_call(folder, name, Folder.REMOVE, target)
        except FileNotFoundError:
            return ()
        return (move,)

    def _require_left(self, queue: QueueName, committed: Committed, code: int) -> None:
        if code == errno.EEXIST:
            # Another message of that id is not unlinked yet.
            name = file_name(queue, committed.message_id)
            self._spool.move_aside(committed.folder, committed.name, Folder.REMOVE, name)
        elif code not in (0, errno.ENOENT):
            raise OSError(code, os.strerror(code), committed.name)

    def _read(
        self, queue: QueueName, waiting: list[Committed]
    ) -> Iterator[tuple[Committed, NewMessage]]:
        for committed, message in read_committed(self._spool, waiting):
            if message is None:
                self._refuse(queue, committed, "it fails its seal")
            else:
                yield committed, message


def _next_request(
    messages: Iterator[tuple[Committed, NewMessage]],
) -> list[tuple[Committed, NewMessage]]:
    """Return the messages for one request, as `publish_many` divides them. A body in base64 takes a
    third more."""
    taken = []
    size = 0
    for each in islice(messages, MAX_BATCH_LINES):
        taken.append(each)
        size += len(each[1].body)
        if size >= MAX_BATCH_BYTES // 2:
            break
    return taken
