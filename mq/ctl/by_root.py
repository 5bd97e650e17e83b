"""The way without a server: the store's own operations on the folders, beside whoever else works
on them."""

from __future__ import annotations

import io
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from mq.config import (
    BUSY_WAIT_SECONDS,
    CHUNK_BYTES,
    DEFAULT_CONTENT_TYPE,
    OWN_ID_WAIT_SECONDS,
    SMALL_BODY_BYTES,
    ServerConfig,
)
from mq.ctl.access import Counts, Message, Readable
from mq.ctl.batches import publish_batch
from mq.ctl.look import count_queue, count_queues, find_message, oldest_messages
from mq.ctl.runner import Runner
from mq.errors import BodyTooLarge, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.operation import Operation, unavailable
from mq.spool.files import Files
from mq.spool.folders import Spool
from mq.spool.listing import list_queue
from mq.spool.queues import finish_deletion
from mq.spool.root import open_root, visit_root
from mq.store import by_id, queues
from mq.store.bodies import is_whole
from mq.store.by_id import Guard
from mq.store.lease import Received, set_aside_leased
from mq.store.own_id import publish_own
from mq.store.publish import Draft, Published, check_publish, publish
from mq.store.receive import receive
from mq.store.redrive import redrive
from mq.store.remove import remove, remove_leased
from mq.store.workspace import Retry
from mq.web.times import rfc3339

T = TypeVar("T")

_TRIES = 4
"""How often an operation is run again after what it asked for was done."""

_DEFAULTS = ServerConfig()
_NS = 1_000_000_000


class RootAccess:
    """The queues of the folders in `root`; `mq.ctl.access.Access` says what the methods do."""

    def __init__(self, root: Path, files: Files | None = None) -> None:
        self._root = root
        self._files = files or Files()
        self._opened = ExitStack()

    def close(self) -> None:
        self._opened.close()

    @cached_property
    def _spool(self) -> Spool:
        spool = visit_root(self._root, self._files)
        self._opened.callback(spool.close)
        return spool

    @cached_property
    def _runner(self) -> Runner:
        runner = Runner(self._spool)
        self._opened.callback(runner.close)
        return runner

    def list_queues(self) -> list[Counts]:
        with _disk_errors():
            return count_queues(self._spool)

    def describe_queue(self, queue: QueueName) -> Counts:
        with _disk_errors():
            return count_queue(self._spool, queue)

    def create_queue(self, queue: QueueName) -> bool:
        """Makes the root too, where nothing is yet."""
        if _is_unused(self._root):
            open_root(self._root, _DEFAULTS.mode, self._files)[0].close()
        for _ in range(_TRIES):
            made = self._runner.run(queues.create_queue(self._runner.work, queue))
            if not isinstance(made, Retry):
                return made
            self._finish_deletion(queue)
        raise StoreUnavailable(f"queue {queue} is being deleted by somebody else; try again")

    def delete_queue(self, queue: QueueName) -> None:
        for _ in range(_TRIES):
            retry = self._runner.run(queues.begin_deletion(self._runner.work, queue))
            self._finish_deletion(queue)
            if retry is None:
                return
        raise StoreUnavailable(f"queue {queue} is being deleted by somebody else; try again")

    def publish(
        self,
        queue: QueueName,
        body: Readable,
        content_type: str | None,
        message_id: MessageId | None = None,
        delay_seconds: float = 0.0,
    ) -> MessageId:
        work, delay_ns = self._runner.work, int(delay_seconds * _NS)
        self._runner.run(check_publish(work, queue))
        first = body.read(SMALL_BODY_BYTES + 1)
        if len(first) <= SMALL_BODY_BYTES:
            crc32 = zlib.crc32(first)
            return self._publish(
                queue, Draft(len(first), crc32, content_type, first, -1, message_id, delay_ns)
            )
        with _disk_errors():
            fd = self._files.open_unnamed(self._spool.fd(Folder.NEW), self._spool.file_mode)
        try:
            with _disk_errors():
                draft = self._upload(fd, first, body, content_type)
            return self._publish(queue, replace(draft, message_id=message_id, delay_ns=delay_ns))
        finally:
            self._files.close(fd)

    def publish_batch(self, queue: QueueName, lines: bytes) -> list[MessageId]:
        return publish_batch(self._runner, queue, lines)

    def _publish(self, queue: QueueName, draft: Draft) -> MessageId:
        operation = publish if draft.message_id is None else publish_own
        deadline = time.monotonic() + OWN_ID_WAIT_SECONDS
        while time.monotonic() < deadline:
            published = self._runner.run(operation(self._runner.work, queue, draft))
            if isinstance(published, Published):
                return published.message_id
            time.sleep(0.005)
        raise StoreUnavailable(f"message {draft.message_id} is just being published; try again")

    def receive(
        self, queue: QueueName, visibility_seconds: float | None, wait_seconds: float = 0.0
    ) -> Message | None:
        deadline = time.monotonic() + wait_seconds
        while True:
            message = self._receive_now(queue, visibility_seconds)
            left = deadline - time.monotonic()
            if message is not None or left <= 0:
                return message
            self._runner.wait(left)

    def _receive_now(self, queue: QueueName, visibility_seconds: float | None) -> Message | None:
        seconds = _DEFAULTS.visibility_seconds if visibility_seconds is None else visibility_seconds
        work = self._runner.work
        for _ in range(_TRIES):
            taken = self._runner.run(receive(work, queue, int(seconds * _NS)))
            if taken is Retry.LIST:
                self._list(queue)
            elif not isinstance(taken, Received):
                return None
            elif taken.fd < 0 or self._is_whole(taken):
                return _message(taken)
            else:
                taken.close(self._files)
                self._runner.run(set_aside_leased(work, taken))
        return None

    def touch(
        self, queue: QueueName, message_id: MessageId, seconds: float, lease: int | None
    ) -> str:
        guard = Guard(frozenset(), is_any=True) if lease is None else Guard(frozenset({lease}))
        work, visibility_ns = self._runner.work, int(seconds * _NS)
        taken = self._until_free(
            message_id, lambda: by_id.take(work, queue, message_id, visibility_ns, guard)
        )
        taken.close(self._files)
        return rfc3339(taken.visible_ns)

    def release(self, queue: QueueName, message_id: MessageId, lease: int | None) -> None:
        guard = None if lease is None else Guard(frozenset({lease}))
        work = self._runner.work
        self._until_free(message_id, lambda: by_id.release(work, queue, message_id, guard))

    def redrive(self, queue: QueueName, dead: QueueName) -> int:
        moved = 0
        while batch := self._runner.run(redrive(self._runner.work, queue, dead)):
            if isinstance(batch, Retry):
                self._list(dead)
            else:
                moved += batch
        return moved

    def remove(self, queue: QueueName, message_id: MessageId, lease: int | None) -> None:
        work = self._runner.work
        if lease is None:
            self._runner.run(remove(work, queue, message_id))
            return
        leases = frozenset({lease})
        self._until_free(message_id, lambda: remove_leased(work, queue, message_id, leases))

    def _until_free(self, message_id: MessageId, make: Callable[[], Operation[T | Retry]]) -> T:
        """Run an operation again while somebody else holds the message's lock."""
        deadline = time.monotonic() + BUSY_WAIT_SECONDS
        while isinstance(outcome := self._runner.run(make()), Retry):
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"message {message_id} is held by somebody else; try again")
            time.sleep(0.002)
        return outcome

    def peek(self, queue: QueueName, limit: int) -> Iterator[Message]:
        with _disk_errors():
            yield from oldest_messages(self._spool, queue, limit)

    def peek_at(self, queue: QueueName, message_id: MessageId) -> Message:
        with _disk_errors():
            return find_message(self._spool, queue, message_id)

    def _finish_deletion(self, queue: QueueName) -> None:
        with _disk_errors():
            finish_deletion(self._spool, queue)

    def _list(self, queue: QueueName) -> None:
        """Read the queue's index from its folder, as a server does."""
        ready = self._runner.run(queues.begin_listing(self._runner.work, queue))
        with _disk_errors():
            listing = list_queue(self._spool, queue, ready.__contains__)
        self._runner.run(queues.end_listing(ready, listing))

    def _is_whole(self, received: Received) -> bool:
        with _disk_errors():
            return is_whole(self._files, received)

    def _upload(self, fd: int, first: bytes, rest: Readable, content_type: str | None) -> Draft:
        """Write and sync a large body. Raises BodyTooLarge."""
        length = crc32 = 0
        chunk = first
        while chunk:
            length += len(chunk)
            if length > _DEFAULTS.max_body_bytes:
                raise BodyTooLarge(f"the body has more than {_DEFAULTS.max_body_bytes} bytes")
            crc32 = zlib.crc32(chunk, crc32)
            self._files.write(fd, chunk)
            chunk = rest.read(CHUNK_BYTES)
        self._files.sync(fd)
        return Draft(length, crc32, content_type, None, fd)


def _is_unused(root: Path) -> bool:
    """Missing or empty. Whoever opens it says what else may be wrong with it."""
    try:
        return not any(root.iterdir())
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _message(received: Received) -> Message:
    body = io.FileIO(received.fd) if received.body is None else io.BytesIO(received.body)
    return Message(
        message_id=received.message_id,
        state="leased",
        lease=f"{received.lease:016x}",
        receive_count=received.receive_count,
        content_type=received.content_type or DEFAULT_CONTENT_TYPE,
        published_at=rfc3339(received.published_ns),
        visible_at=rfc3339(received.visible_ns),
        length=received.length,
        body=body,
    )


@contextmanager
def _disk_errors() -> Iterator[None]:
    """As the store's operations raise them."""
    try:
        yield
    except OSError as error:
        raise unavailable(error) from error
