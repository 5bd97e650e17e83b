"""The way out: publish over HTTP what Spark has committed.

    STAGING/out/queues/QUEUE/ID   committed; goes under the id it has
    STAGING/out/delay/QUEUE:ID    the same, to be hidden until its stamp

A batch is published under the ids that its messages have here; then it leaves the staging, durably,
before the next one is published. So a crash leaves at most one batch whose outcome is unknown. It
is published again, and the server knows the ids while the messages are there, and for `--keep` of
its reaper after they were removed.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from mq.client import BodyTooLarge, IdTaken, NewMessage, QueueNotFound
from mq.config import MAX_BATCH_BYTES, MAX_BATCH_LINES, SECOND_NS
from mq.errors import MQError
from mq.lifecycle import Folder
from mq.names import (
    MessageId,
    QueueName,
    file_name,
    id_of_key,
    is_queue_name,
    parse_file_name,
    queue_path,
)
from mq.spool.folders import Spool
from mq.spool.listing import list_queue
from mq.spool.message import Opened, read_content, seal_of
from mq.spool.seal import due_ns
from pyspark_mq.by_url.servers import ServerChoice
from pyspark_mq.by_url.staging import make_staged_queue, reap_staged

LOCK_SECONDS = 60.0
"""How long a commit waits for another process that publishes out of the same staging."""


_REFUSED = (IdTaken, BodyTooLarge)
"""The server refused one message for what it is; any server would."""

log = logging.getLogger("pyspark_mq")


class NotForwarded(MQError):
    """The servers do not have what was committed; the text says what to do."""


class Committed(NamedTuple):
    """A committed message, and where it lies."""

    folder: Folder
    name: str
    message_id: MessageId


class Forwarder:
    """Publishes everything that waits in a staging."""

    def __init__(self, spool: Spool, servers: ServerChoice) -> None:
        self._spool = spool
        self._servers = servers
        self._refused: list[str] = []

    def forward(self) -> None:
        """Publish all that waits, each queue in order. On return it is on the servers' stable
        media.

        Raises NotForwarded if a queue is gone, or if a message was refused for good and is in
        `corrupt` now; all others are published then. Raises ClientError; the rest then waits for
        the next call.
        """
        delayed = self._delayed()
        names = [name for name in self._spool.names(Folder.QUEUES) if is_queue_name(name)]
        for queue in map(QueueName, sorted({*names, *delayed})):
            make_staged_queue(self._spool, queue)
            folder = self._spool.fd(Folder.QUEUES)
            with self._spool.files.locked_folder(folder, queue, LOCK_SECONDS):
                self._forward(queue, self._ready(queue))
                self._forward(queue, delayed.get(queue, []))
        if self._refused:
            raise NotForwarded("; ".join(self._refused))

    def _delayed(self) -> dict[QueueName, list[Committed]]:
        found: dict[QueueName, list[Committed]] = {}
        for name in sorted(self._spool.names(Folder.DELAY)):
            parsed = parse_file_name(name)
            if parsed is not None:
                waiting = Committed(Folder.DELAY, name, parsed[1])
                found.setdefault(parsed[0], []).append(waiting)
        return found

    def _ready(self, queue: QueueName) -> list[Committed]:
        listing = list_queue(self._spool, queue, lambda _: False)
        ids = [MessageId(id_of_key(key)) for key in listing.keys] if listing is not None else []
        return [Committed(Folder.QUEUES, queue_path(queue, each), each) for each in ids]

    def _forward(self, queue: QueueName, waiting: list[Committed]) -> None:
        messages = self._read(queue, waiting)
        while batch := _some(messages):
            try:
                self._publish(queue, [message for _, message in batch])
            except QueueNotFound as error:
                raise self._no_queue(queue, len(waiting)) from error
            except _REFUSED:
                # One of them kept all from being published. Sending each by itself tells which one.
                for one in batch:
                    self._forward_alone(queue, *one)
                continue
            self.put_away(queue, [place for place, _ in batch])

    def _forward_alone(self, queue: QueueName, place: Committed, message: NewMessage) -> None:
        try:
            self._publish(queue, [message])
        except _REFUSED as error:
            self._refuse(queue, place, str(error))
        else:
            self.put_away(queue, [place])

    def _refuse(self, queue: QueueName, place: Committed, why: str) -> None:
        kept = self.set_aside(queue, place)
        text = f"{place.message_id} for queue {queue} was refused, and is {kept} now: {why}"
        log.error("%s", text)
        self._refused.append(text)

    def _publish(self, queue: QueueName, messages: list[NewMessage]) -> None:
        self._servers.ask(lambda mq: mq.queue(queue).publish_many(messages))

    def _no_queue(self, queue: QueueName, count: int) -> NotForwarded:
        return NotForwarded(
            f"the write is committed, but the servers have no queue {queue}: its {count} messages "
            f"wait in {self._spool.root}; make the queue again, and run this write or any other "
            f"with this staging; or remove {self._spool.root}/queues/{queue}"
        )

    def set_aside(self, queue: QueueName, place: Committed) -> str:
        """Move a message to `corrupt`. Returns its path there."""
        name = file_name(queue, place.message_id)
        kept = self._spool.move_aside(place.folder, place.name, Folder.CORRUPT, name)
        return self._spool.path(Folder.CORRUPT, kept or name)

    def put_away(self, queue: QueueName, places: list[Committed]) -> None:
        """Move messages out of the staging: the servers have them."""
        for place in places:
            name = file_name(queue, place.message_id)
            self._spool.move_aside(place.folder, place.name, Folder.REMOVE, name)
        reap_staged(self._spool)
        self._spool.files.sync_file_system(self._spool.fd(Folder.REMOVE))

    def _read(
        self, queue: QueueName, waiting: list[Committed]
    ) -> Iterator[tuple[Committed, NewMessage]]:
        files = self._spool.files
        for place in waiting:
            try:
                at = self._spool.at(place.folder, place.name)
                fd = files.open_to_look(at.fd, at.name)
            except FileNotFoundError:
                # Another process published it before it let go of the lock.
                continue
            with Opened(files, place.name, fd, os.fstat(fd), seal_of(files, fd)) as opened:
                message = self._message(opened, place)
                if message is None:
                    self._refuse(queue, place, "it fails its seal")
                else:
                    yield place, message

    def _message(self, opened: Opened, place: Committed) -> NewMessage | None:
        """Return a message to publish, or None if it is damaged."""
        content = read_content(opened, self._spool.files)
        if content is None:
            return None
        delay = 0.0
        if place.folder is Folder.DELAY:
            delay = max(0.0, (due_ns(opened.status, 0) - time.time_ns()) / SECOND_NS)
        return NewMessage(
            content.body, opened.content_type(), delay, place.message_id, content.properties
        )


def _some(
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
