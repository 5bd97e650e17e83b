"""What clients of a server ask for; every request and answer goes to the ledger."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from mq.errors import LeaseMismatch, MessageNotFound, MQError, QueueNotFound, StoreUnavailable
from mq.lifecycle import PurgeScope
from mq.names import MessageId, QueueName
from mq.spool.queue.queue_settings import NO_CHANGES
from mq.store.by_id import Guard
from mq.store.moving.move import Moving
from mq.store.moving.redrive import redrive
from mq.store.publishing.publish import Entry
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from tests.crash.enumeration.clock import LONG_SECONDS, SECOND_NS
from tests.crash.enumeration.known import GivenLease, LedgerMessage
from tests.crash.enumeration.ledger import Ledger
from tests.crash.enumeration.promises import Got, Is
from tests.crash.enumeration.properties import body_with_all, draft_of
from tests.crash.enumeration.recorder import RecordedFiles
from tests.crash.enumeration.scene import Scene
from tests.support.submits import NOT_PUBLISHED, publish_as_asked


class PlayedClients:
    """Of a server of their own."""

    def __init__(self, scene: Scene, files: RecordedFiles | None = None) -> None:
        self.scene = scene
        self.files = files or scene.files()
        self.server = scene.open_server(self.files)
        self.store: Store = self.server.store

    def run(self, *work: Coroutine[Any, Any, Any]) -> list[Any]:
        """Requests at once. A defect is raised, no matter whose it is."""
        return self.server.run_well(*work)

    @contextmanager
    def failing(self, call: str, after: int = 0) -> Iterator[None]:
        """All calls of that name fail after the first `after` ones."""
        left = after

        def before(called: str) -> None:
            nonlocal left
            left -= called == call
            if called == call and left < 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        self.files.before = before
        yield
        self.files.before = None

    async def create(self, queue: str, settings: Mapping[str, str] = NO_CHANGES) -> None:
        say, text = self.scene.say, "".join(f"{name}={settings[name]}\n" for name in settings)
        say(partial(Ledger.asks_create, queue=queue, settings=text))
        try:
            is_new = await self.store.create_queue(QueueName(queue), settings)
        except StoreUnavailable:
            say(partial(Ledger.ends_creation, queue=queue))
            return
        say(partial(Ledger.is_created, queue=queue, is_new=is_new))

    async def delete(self, queue: str) -> None:
        say = self.scene.say
        bodies = self.scene.bodies_in(queue)
        say(partial(Ledger.asks_delete, queue=queue, bodies=bodies))
        no = partial(Ledger.is_not_deleted, queue=queue, bodies=bodies)
        try:
            await self.store.delete_queue(QueueName(queue))
        except StoreUnavailable:
            say(partial(no, is_certain=False))
        except QueueNotFound:
            say(partial(no, is_certain=True))
        else:
            say(partial(Ledger.is_deleted, queue=queue, bodies=bodies))

    async def purge(self, queue: str, scope: PurgeScope = PurgeScope.ALL) -> None:
        """Purge a queue. Ready messages that another client receives meanwhile stay or go."""
        say = self.scene.say
        bodies = self.scene.bodies_in(queue, scope)
        say(partial(Ledger.asks_purge, queue=queue, bodies=bodies))
        gone: list[bytes] = []
        try:
            await self.store.purge(QueueName(queue), scope)
        except QueueNotFound:
            say(partial(Ledger.is_missing, queue=queue))
        except StoreUnavailable:
            pass
        else:
            gone = [each for each in bodies if scope is PurgeScope.ALL or self._is_ready(each)]
        doubtful = [each for each in bodies if each not in gone]
        say(partial(Ledger.ends_purge, queue=queue, gone=gone, doubtful=doubtful))

    def _is_ready(self, body: bytes) -> bool:
        message = self.scene.ledger.messages[body]
        return message.hidden is Is.NOT and not self.scene.ledger.receiving[message.queue]

    async def publish(
        self, queue: str, size: int = 10, delay_seconds: float = 0.0, own_id: str | None = None,
        make_body: Callable[[int], bytes] | None = None,
    ) -> LedgerMessage:  # fmt: skip
        """A large body comes in two pieces. Without `make_body` an own id always has one body."""
        is_same = own_id is not None and make_body is None
        body = f"{own_id} ".encode() if is_same else (make_body or self.scene.body)(size)
        say, delay_ns = self.scene.say, int(delay_seconds * SECOND_NS)
        due_ns = self.scene.clock.now_ns + delay_ns if delay_ns else 0
        say(partial(self._asks_publish(own_id), queue=queue, body=body, hidden_until_ns=due_ns))
        own = MessageId(own_id) if own_id else None
        draft = draft_of(body, own, delay_ns)
        try:
            published = await publish_as_asked(self.store, QueueName(queue), draft)
        except NOT_PUBLISHED:
            pass
        except QueueNotFound:
            say(partial(Ledger.is_missing, queue=queue))
        else:
            say(partial(Ledger.is_published, body=body, message_id=published.message_id))
        return self.scene.ledger.messages[body]

    def _asks_publish(self, own_id: str | None) -> Callable[..., None]:
        """Return the request. Only a seal puts an own id where it belongs in the order."""
        return partial(Ledger.asks_publish, is_ordered=own_id is None or self.scene.has_seals)

    async def publish_batch(
        self, queue: str, number: int, delay_seconds: float = 0.0, own_id: str | None = None,
        make_body: Callable[[int], bytes] | None = None,
    ) -> list[LedgerMessage]:  # fmt: skip
        """Publish `number` messages, every second one delayed if there is a delay, and the first
        one under its own id if there is one."""
        say, name, delay_ns = self.scene.say, QueueName(queue), int(delay_seconds * SECOND_NS)
        entries = []
        for line in range(1, number + 1):
            own = MessageId(own_id) if own_id and line == 1 else None
            body = f"{own} ".encode() if own else (make_body or self.scene.body)(10)
            own_delay_ns = delay_ns * (line % 2)
            due_ns = self.scene.clock.now_ns + own_delay_ns if own_delay_ns else 0
            say(partial(self._asks_publish(own), queue=queue, body=body, hidden_until_ns=due_ns))
            entries.append(Entry(line, draft_of(body, own, own_delay_ns)))
        bodies = [entry.draft.body or b"" for entry in entries]
        say(partial(Ledger.asks_batch, bodies=frozenset(bodies)))
        try:
            published = await self.store.publish_batch(name, entries)
        except StoreUnavailable:
            published = []
        except QueueNotFound:
            say(partial(Ledger.is_missing, queue=queue))
            published = []
        for body, (message_id, *_) in zip(bodies, published, strict=False):
            say(partial(Ledger.is_published, body=body, message_id=message_id))
        return [self.scene.ledger.messages[body] for body in bodies]

    async def receive(self, queue: str, seconds: float = LONG_SECONDS) -> Received | None:
        taken = await self.receive_many(queue, 1, seconds)
        return taken[0] if taken else None

    async def receive_many(self, queue: str, limit: int, seconds: float) -> list[Received]:
        say, gone, why = self.scene.say, self.scene.ledger.gone(), "204"
        for _ in range(limit):
            say(partial(Ledger.asks_receive, queue=queue))
        taken: list[Received] = []
        try:
            taken = await self.store.receive_many(QueueName(queue), limit, seconds)
        except StoreUnavailable:
            why = "503"
        except QueueNotFound:
            why = "404"
        for received in taken:
            body = received.body
            if body is None:
                body = os.pread(received.fd, received.length, 0)
                received.close(self.store._work.files)
            body = body_with_all(body, received.properties, received.content_type)
            got = Got(queue, received.message_id, body)
            lease = GivenLease(received.lease, self.scene.clock.now_ns, received.visible_ns)
            say(partial(Ledger.is_received, queue=queue, got=got, lease=lease, gone=gone))
        for _ in range(limit - len(taken)):
            say(partial(Ledger.is_not_received, queue=queue, is_certain=why != "503"))
        if why == "404":
            say(partial(Ledger.is_missing, queue=queue))
        return taken

    async def take(self, message: LedgerMessage, seconds: float, lease: int | None = None) -> None:
        """That very message; with a lease, prolong it."""
        say, message_id = self.scene.say, str(message.message_id)
        until_ns = self.scene.clock.now_ns + int(seconds * SECOND_NS)
        say(partial(Ledger.asks_take, message_id=message_id, until_ns=until_ns))
        why, is_certain = "503", False
        guard = None if lease is None else Guard(frozenset({lease}))
        try:
            received = await self.store.take(
                QueueName(message.queue), MessageId(message_id), seconds, guard
            )
        except StoreUnavailable:
            pass
        except (MessageNotFound, QueueNotFound):
            why, is_certain = "404", True
        except LeaseMismatch:
            why, is_certain = "412", True
        else:
            received.close(self.store._work.files)
            begun = GivenLease(received.lease, self.scene.clock.now_ns, received.visible_ns)
            say(partial(Ledger.is_taken, message_id=message_id, lease=begun))
            return
        say(partial(Ledger.is_not_taken, message_id=message_id, is_certain=is_certain, why=why))

    async def release(self, message: LedgerMessage, lease: int | None = None) -> None:
        """Release a message as a client asks for it; with a lease, only under that one."""
        message_id = str(message.message_id)
        self.scene.say(partial(Ledger.asks_release, message_id=message_id, is_uncounted=False))
        guard = None if lease is None else Guard(frozenset({lease}))
        with suppress(StoreUnavailable, MessageNotFound, QueueNotFound, LeaseMismatch):
            await self.store.release_by_id(QueueName(message.queue), MessageId(message_id), guard)

    async def put_back(self, received: Received) -> None:
        """Put a message back as the server does for a receiver that went away."""
        message_id = str(received.message_id)
        self.scene.say(partial(Ledger.asks_release, message_id=message_id, is_uncounted=True))
        await self.store.put_back(received)

    async def move(self, message: LedgerMessage, target: str, lease: int | None = None) -> None:
        """That very message; with a lease, only under it."""
        message_id, say = str(message.message_id), self.scene.say
        moving = Moving(QueueName(message.queue), QueueName(target), "no use")
        guard = None if lease is None else Guard(frozenset({lease}))
        say(partial(Ledger.asks_move, message_id=message_id, target=target))
        error: MQError | None
        try:
            [error] = await self.store.move_by_id(moving, [MessageId(message_id)], guard)
        except MQError as raised:
            error = raised
        if error is None:
            say(partial(Ledger.is_moved, message_id=message_id, target=target))
            return
        no = partial(Ledger.is_not_moved, message_id=message_id, target=target)
        is_certain = not isinstance(error, StoreUnavailable)
        say(partial(no, is_certain=is_certain, is_gone=isinstance(error, MessageNotFound)))

    async def move_ready(self, queue: str, target: str, limit: int, reason: str = "") -> None:
        """The oldest; nobody else moves or receives any meanwhile."""
        moving = Moving(QueueName(queue), QueueName(target), reason or None)
        await self._move_oldest(queue, target, self.store.move(moving, limit))

    async def redrive(self, queue: str, home: str, limit: int) -> None:
        """Redrive as `move_ready` moves, messages that all died in `home`."""
        redriving = self.store.run(lambda w: redrive(w, QueueName(queue), limit, frozenset()))
        await self._move_oldest(queue, home, redriving)

    async def _move_oldest(self, queue: str, target: str, moving: Awaitable[object]) -> None:
        say = self.scene.say
        asked = [str(m.message_id) for m in self.scene.ledger.of_queue(queue) if m.message_id]
        for each in asked:
            say(partial(Ledger.asks_move, message_id=each, target=target))
        is_certain = True
        try:
            await moving
        except MQError as error:
            is_certain = not isinstance(error, StoreUnavailable)
        there = os.listdir(self.scene.root / "queues" / target)
        for each in asked:
            if is_certain and each in there:
                say(partial(Ledger.is_moved, message_id=each, target=target))
            else:
                no = partial(Ledger.is_not_moved, is_certain=is_certain)
                say(partial(no, message_id=each, target=target))

    async def remove(self, queue: str, message_id: str, lease: int | None = None) -> None:
        """With a lease, only under it."""
        leases = None if lease is None else frozenset({lease})
        self.scene.say(partial(Ledger.asks_remove, message_id=message_id))
        outcome: MQError | None = None
        try:
            await self.store.remove(QueueName(queue), MessageId(message_id), leases)
        except MQError as error:
            outcome = error
        self.say_removed(message_id, lease, outcome)

    async def remove_together(self, queue: str, received: Sequence[Received]) -> None:
        """Each under its lease."""
        ids, leases = [each.message_id for each in received], [each.lease for each in received]
        for each in ids:
            self.scene.say(partial(Ledger.asks_remove, message_id=each))
        outcomes = await self.store.remove_many(QueueName(queue), ids, frozenset(leases))
        for outcome in zip(ids, leases, outcomes, strict=True):
            self.say_removed(*outcome)

    def say_removed(self, message_id: str, lease: int | None, outcome: MQError | None) -> None:
        say = self.scene.say
        if outcome is None:
            say(partial(Ledger.is_removed, message_id=message_id, lease=lease))
            return
        is_certain = not isinstance(outcome, StoreUnavailable)
        why = "412" if isinstance(outcome, LeaseMismatch) else "404" if is_certain else "503"
        say(partial(Ledger.is_not_removed, message_id=message_id, is_certain=is_certain, why=why))
