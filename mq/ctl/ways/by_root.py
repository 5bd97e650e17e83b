"""The way without a server: the store's own operations on the folders, beside other processes."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from mq.commit.operation import unavailable
from mq.config import CHUNK_BYTES, SECOND_NS, SMALL_BODY_BYTES, ServerConfig
from mq.ctl.ways.access import Passed, QueueCounts, QueueMove, Readable, ShownMessage
from mq.ctl.ways.inspect import count_queue, count_queues, find_message, oldest_messages
from mq.ctl.ways.messages import peeked_message, received_message
from mq.ctl.ways.removals import Removals
from mq.ctl.ways.runner import Runner
from mq.disk.files import Files
from mq.errors import BodyTooLarge
from mq.lifecycle import Actor, Folder, PurgeScope, State
from mq.lines.ndjson import Line
from mq.names import MessageId, QueueName
from mq.spool.network_files import files_for
from mq.spool.queue.queue_settings import NO_CHANGES
from mq.spool.queue.queues import finish_deletion
from mq.spool.root import open_root, visit_root
from mq.spool.spool import Spool
from mq.store import by_id
from mq.store.by_id import Guard
from mq.store.moving.move import Moving
from mq.store.moving.move_many import move_by_id, move_ready
from mq.store.peeking.peek import peek
from mq.store.publishing.copies import publish_entries, publish_one
from mq.store.publishing.own_id import check_publish_under
from mq.store.publishing.publish import Draft, Entry
from mq.store.queue import queues
from mq.store.queue.purge import purge
from mq.store.queue.settings import change_settings, settings_of
from mq.store.receiving.receive import receive
from mq.store.removing.remove import remove
from mq.store.removing.remove_under_lease import remove_leased
from mq.times import in_ns, rfc3339
from mq.web.endpoints.batch_lines import draft_of, parse_batch

_DEFAULTS = ServerConfig()


class RootAccess:
    """The queues of the folders in `root`; `mq.ctl.ways.access.Access` says what the methods do."""

    def __init__(self, root: Path, files: Files | None = None) -> None:
        self._root = root
        self._files = files or files_for(root)
        self._opened = ExitStack()

    def close(self) -> None:
        self._opened.close()

    @cached_property
    def _spool(self) -> Spool:
        spool = visit_root(self._root, self._files, Actor.SERVER)
        self._opened.callback(spool.close)
        return spool

    @cached_property
    def _runner(self) -> Runner:
        with _disk_errors():
            runner = Runner(self._spool)
        self._opened.callback(runner.close)
        return runner

    @cached_property
    def _removals(self) -> Removals:
        removals = Removals(self._spool)
        self._opened.callback(removals.close)
        return removals

    def list_queues(self) -> list[QueueCounts]:
        with _disk_errors():
            return count_queues(self._spool)

    def passed(self) -> dict[str, Passed]:
        with _disk_errors():
            return self._removals.count()

    def describe_queue(self, queue: QueueName) -> QueueCounts:
        with _disk_errors():
            return count_queue(self._spool, queue)

    def create_queue(self, queue: QueueName, changes: Mapping[str, str] = NO_CHANGES) -> bool:
        """Make a queue, and the root too if it is missing or empty."""
        if _is_unused(self._root):
            open_root(self._root, _DEFAULTS.mode, self._files)[0].close()
        return self._runner.run(queues.create_queue(self._runner.work, queue, changes))

    def settings(self, queue: QueueName) -> dict[str, Any]:
        with _disk_errors():
            return dict(settings_of(self._spool, queue).document())

    def change_settings(self, queue: QueueName, changes: Mapping[str, str]) -> None:
        self._runner.run(change_settings(self._runner.work, queue, changes))

    def delete_queue(self, queue: QueueName) -> None:
        self._runner.run(queues.begin_deletion(self._runner.work, queue))
        self._runner.call(finish_deletion, self._spool, queue)

    def purge(self, queue: QueueName, scope: PurgeScope) -> int:
        return self._runner.run(purge(self._runner.work, queue, scope))

    def publish(
        self, queue: QueueName, body: Readable, model: Line, also: Sequence[QueueName] = ()
    ) -> MessageId:
        work = self._runner.work
        self._runner.run(check_publish_under(work, queue, (model.message_id,)))
        first = body.read(SMALL_BODY_BYTES + 1)
        draft = draft_of(model._replace(body=first))
        if len(first) <= SMALL_BODY_BYTES:
            return self._publish(queue, draft, also)
        with _disk_errors():
            fd = self._files.open_unnamed(self._spool.fd(Folder.NEW), self._spool.file_mode)
        try:
            with _disk_errors():
                length, crc32 = self._upload(fd, first, body, draft.trailer)
            whole = replace(draft, length=length, crc32=crc32, body=None, fd=fd)
            return self._publish(queue, whole, also)
        finally:
            self._files.close(fd)

    def publish_batch(
        self, queue: QueueName, lines: bytes, also: Sequence[QueueName] = ()
    ) -> list[tuple[QueueName, MessageId]]:
        entries = parse_batch(lines, _DEFAULTS.max_body_bytes, 1 + len(also))
        ids = self._publish_entries(queue, entries, also)
        return [(each.queue or queue, sent) for each, sent in zip(entries, ids, strict=True)]

    def begin_batch(self, queue: QueueName, lines: Sequence[Line]) -> Callable[[], list[MessageId]]:
        """Begin a batch. All of it is done at the end: there is no other process to do it
        meanwhile."""
        return partial(self._publish_lines, queue, lines)

    def _publish_lines(self, queue: QueueName, lines: Sequence[Line]) -> list[MessageId]:
        numbered = enumerate(lines, 1)
        return self._publish_entries(queue, [Entry(at, draft_of(line)) for at, line in numbered])

    def _publish_entries(
        self, queue: QueueName, entries: Sequence[Entry], also: Sequence[QueueName] = ()
    ) -> list[MessageId]:
        operation = publish_entries(self._runner.work, queue, entries, tuple(also))
        published = self._runner.run(operation)
        return [each.message_id for each in published]

    def _publish(self, queue: QueueName, draft: Draft, also: Sequence[QueueName]) -> MessageId:
        operation = publish_one(self._runner.work, queue, draft, tuple(also))
        return self._runner.run(operation).message_id

    def receive(
        self,
        queue: QueueName,
        visibility_seconds: float | None,
        wait_seconds: float = 0.0,
        then: Sequence[QueueName] = (),
    ) -> ShownMessage | None:
        deadline = time.monotonic() + wait_seconds
        while True:
            message = self._receive_now([queue, *then], visibility_seconds)
            left = deadline - time.monotonic()
            if message is not None or left <= 0:
                return message
            self._runner.wait(left)

    def _receive_now(
        self, queues: Sequence[QueueName], visibility_seconds: float | None
    ) -> ShownMessage | None:
        visibility_ns = in_ns(visibility_seconds)
        for queue in queues:
            taken = self._runner.run(receive(self._runner.work, queue, visibility_ns))
            if taken is not None:
                message = received_message(taken)
                return message if len(queues) == 1 else replace(message, queue=queue)
        return None

    def touch(
        self, queue: QueueName, message_id: MessageId, seconds: float, lease: int | None
    ) -> str:
        guard = Guard(frozenset(), is_any=True) if lease is None else Guard(frozenset({lease}))
        work, visibility_ns = self._runner.work, int(seconds * SECOND_NS)
        taken = self._runner.run(by_id.take(work, queue, message_id, visibility_ns, guard))
        taken.close(self._files)
        return rfc3339(taken.visible_ns)

    def release(self, queue: QueueName, message_id: MessageId, lease: int | None) -> None:
        guard = None if lease is None else Guard(frozenset({lease}))
        self._runner.run(by_id.release(self._runner.work, queue, message_id, guard))

    def move(self, move: QueueMove, limit: int) -> tuple[int, list[str]]:
        moving = Moving(move.source, move.target, move.reason)
        moved = self._runner.run(move_ready(self._runner.work, moving, limit))
        return moved.number, [*moved.taken]

    def move_by_id(self, move: QueueMove, message_id: MessageId) -> None:
        source, target, reason, lease, died_in = move
        guard = None if lease is None else Guard(frozenset({lease}))
        moving, work = Moving(source, target, reason, died_in), self._runner.work
        for error in self._runner.run(move_by_id(work, moving, [message_id], guard)):
            if error is not None:
                raise error

    def remove(self, queue: QueueName, message_id: MessageId, lease: int | None) -> None:
        work = self._runner.work
        if lease is None:
            self._runner.run(remove(work, queue, message_id))
        else:
            self._runner.run(remove_leased(work, queue, message_id, frozenset({lease})))

    def peek(
        self, queue: QueueName, limit: int, state: State = State.READY
    ) -> Iterator[ShownMessage]:
        with _disk_errors():
            yield from oldest_messages(self._spool, queue, limit, state)

    def peek_behind(self, queue: QueueName, after: MessageId, limit: int) -> Sequence[ShownMessage]:
        found = self._runner.run(peek(self._runner.work, queue, limit, after))
        return list(map(peeked_message, found))

    def wait(self, seconds: float) -> None:
        self._runner.wait(seconds)

    def peek_at(self, queue: QueueName, message_id: MessageId) -> ShownMessage:
        with _disk_errors():
            return find_message(self._spool, queue, message_id)

    def _upload(self, fd: int, first: bytes, rest: Readable, trailer: bytes) -> tuple[int, int]:
        """Write and sync a large body and its trailer. Returns the length of the body and its
        CRC-32. Raises BodyTooLarge."""
        length = crc32 = 0
        chunk = first
        while chunk:
            length += len(chunk)
            if length > _DEFAULTS.max_body_bytes:
                raise BodyTooLarge(f"the body has more than {_DEFAULTS.max_body_bytes} bytes")
            crc32 = zlib.crc32(chunk, crc32)
            self._files.write(fd, chunk)
            chunk = rest.read(CHUNK_BYTES)
        self._files.write(fd, trailer)
        self._files.sync(fd)
        return length, crc32


def _is_unused(root: Path) -> bool:
    """Return whether the root is missing or empty. The code that opens it says what else may be
    wrong."""
    try:
        return not any(root.iterdir())
    except FileNotFoundError:
        return True
    except OSError:
        return False


@contextmanager
def _disk_errors() -> Iterator[None]:
    """Turn errors of the disk into those that the store's operations raise."""
    try:
        yield
    except OSError as error:
        raise unavailable(error) from error
