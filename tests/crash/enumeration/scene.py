"""Clients, a mover, a reaper and a person's hands on one recorded disk."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mq.config import SMALL_BODY_BYTES
from mq.errors import LeaseMismatch, MessageNotFound, QueueNotFound, StoreUnavailable
from mq.names import MessageId, QueueName
from mq.spool.message import SEAL_ATTRIBUTE, Seal
from mq.store.lease import Received
from mq.store.publish import Draft, Published
from mq.store.store import Store
from tests.crash.enumeration.clock import LONG_SECONDS, SECOND_NS, Clock
from tests.crash.enumeration.disk import Disk
from tests.crash.enumeration.ledger import Lease, Ledger, Message
from tests.crash.enumeration.promises import Got
from tests.crash.enumeration.recorder import MODERN, Abilities, RecordedFiles
from tests.crash.enumeration.restart import move, reap
from tests.crash.enumeration.server import Server

MakeFiles = Callable[[Disk, Abilities], RecordedFiles]


class Scene:
    """A root on a disk, everybody who works on it, and what its clients know."""

    def __init__(
        self,
        root: Path,
        clock: Clock,
        abilities: Abilities = MODERN,
        max_receives: int = 0,
        make_files: MakeFiles = RecordedFiles,
    ) -> None:
        root.mkdir(mode=0o700, parents=True)
        self.root = root
        self.clock = clock
        self.disk = Disk(root)
        self.max_receives = max_receives
        self.ledger = Ledger(max_receives)
        self.since = 0
        self._abilities = abilities
        self._make_files = make_files
        self._servers: list[Server] = []
        self._bodies = 0

    def files(self) -> RecordedFiles:
        return self._make_files(self.disk, self._abilities)

    def server(self) -> Clients:
        """Another server, and its clients."""
        files = self.files()
        server = Server(self.root, files, self.clock, max_receives=self.max_receives)
        self._servers.append(server)
        return Clients(self, server, files)

    def close(self) -> None:
        for server in self._servers:
            server.close()

    def say(self, fact: Callable[[Ledger], None]) -> None:
        fact(self.ledger)
        self.disk.say(fact)

    def begin(self) -> None:
        """The run proper: what was before is not cut."""
        self.since = len(self.disk.events)

    def settle(self) -> None:
        """Everything so far is on the medium, as it is some seconds later."""
        files = RecordedFiles(self.disk, self._abilities)
        fd = files.open_folder(None, str(self.root))
        files.sync_file_system(fd)
        files.close(fd)

    def body(self, size: int) -> bytes:
        """Another body each time, of `size` bytes or the few more that this takes."""
        self._bodies += 1
        return (b"%d " % self._bodies).ljust(size, b"x")

    def move(self, source: str = "delay") -> None:
        move(self.root, self.files(), self.max_receives, source)

    def reap(self) -> None:
        reap(self.root, self.files())

    def place(
        self, path: str, body: bytes, seal: Seal | None = None, due_seconds: float = 0.0
    ) -> None:
        """A file that somebody put there. Nobody was promised anything of it."""
        files = RecordedFiles(self.disk, self._abilities)
        folder, _, name = path.rpartition("/")
        folder_fd = files.open_folder(None, str(self.root / folder))
        fd = files.open_unnamed(folder_fd, 0o600)
        files.write(fd, body)
        if seal is not None and self._abilities.attributes:
            files.set_attribute(fd, SEAL_ATTRIBUTE, seal.pack())
        if due_seconds:
            files.stamp(fd, self.clock() + int(due_seconds * SECOND_NS))
        files.link(fd, folder_fd, name)
        files.close(fd)
        files.close(folder_fd)

    def place_damaged(self, where: str, size: int) -> None:
        """A message that fails its seal."""
        body = self.body(size)
        self.place(f"{where}damaged-{len(body)}-{self._bodies}", body, _seal_of(body + b"more"))
        self.settle()
        self.say(partial(Ledger.keeps, content=body))


def _seal_of(body: bytes) -> Seal:
    return Seal(len(body), zlib.crc32(body), 0, 0, 0)


class Clients:
    """What clients of one server ask for; every request and answer goes to the ledger."""

    def __init__(self, scene: Scene, server: Server, files: RecordedFiles) -> None:
        self.scene = scene
        self.server = server
        self.files = files
        self.store: Store = server.store

    def run(self, *work: Coroutine[Any, Any, Any]) -> list[Any]:
        """Requests at once. A defect is raised, no matter whose it is."""
        answers = self.server.run(*work)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers

    @contextmanager
    def failing(self, call: str) -> Iterator[None]:
        """All calls of that name fail."""

        def before(called: str) -> None:
            if called == call:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        self.files.before = before
        yield
        self.files.before = None

    async def create(self, queue: str) -> None:
        say = self.scene.say
        say(partial(Ledger.asks_create, queue=queue))
        try:
            await self.store.create_queue(QueueName(queue))
        except StoreUnavailable:
            say(partial(Ledger.is_not_created, queue=queue))
            return
        say(partial(Ledger.is_created, queue=queue))

    async def delete(self, queue: str) -> None:
        say = self.scene.say
        bodies = [m.body for m in self.scene.ledger.of_queue(queue) if m.is_published]
        say(partial(Ledger.asks_delete, queue=queue))
        try:
            await self.store.delete_queue(QueueName(queue))
        except StoreUnavailable:
            say(partial(Ledger.is_not_deleted, queue=queue))
        except QueueNotFound:
            say(partial(Ledger.is_not_deleted, queue=queue))
        else:
            say(partial(Ledger.is_deleted, queue=queue, bodies=bodies))

    async def publish(
        self, queue: str, size: int = 10, delay_seconds: float = 0.0, own_id: str | None = None
    ) -> Message:
        """A large body comes in two pieces. The same own id is sent with the same body."""
        body = f"{own_id} ".encode() if own_id else self.scene.body(size)
        say, delay_ns = self.scene.say, int(delay_seconds * SECOND_NS)
        due_ns = self.scene.clock.now_ns + delay_ns if delay_ns else 0
        say(partial(Ledger.asks_publish, queue=queue, body=body, hidden_until_ns=due_ns))
        own = MessageId(own_id) if own_id else None
        draft = Draft(len(body), zlib.crc32(body), None, body, -1, own, delay_ns)
        try:
            published = await self._publish(QueueName(queue), draft)
        except StoreUnavailable:
            pass
        except QueueNotFound:
            say(partial(Ledger.is_missing, queue=queue))
        else:
            say(partial(Ledger.is_published, body=body, message_id=published.message_id))
        return self.scene.ledger.messages[body]

    async def _publish(self, queue: QueueName, draft: Draft) -> Published:
        body = draft.body or b""
        if len(body) <= SMALL_BODY_BYTES:
            return await self.store.publish(queue, draft)
        async with await self.store.open_upload() as upload:
            await upload.write(body[: len(body) // 2])
            await upload.write(body[len(body) // 2 :])
            uploaded = await upload.finish(None)
            return await self.store.publish(queue, replace(uploaded, delay_ns=draft.delay_ns))

    async def receive(self, queue: str, seconds: float = LONG_SECONDS) -> Received | None:
        say, name, gone = self.scene.say, queue, self.scene.ledger.gone()
        say(partial(Ledger.asks_receive, queue=name))
        try:
            received = await self.store.receive(QueueName(queue), seconds)
        except StoreUnavailable:
            say(partial(Ledger.is_not_received, queue=name, is_certain=False))
            return None
        except QueueNotFound:
            say(partial(Ledger.is_not_received, queue=name, is_certain=True))
            say(partial(Ledger.is_missing, queue=name))
            return None
        if received is None:
            say(partial(Ledger.is_not_received, queue=name, is_certain=True))
            return None
        body = received.body
        if body is None:
            body = os.pread(received.fd, received.length + 1, 0)
            self.store.close_received(received)
        got = Got(queue, received.message_id, body)
        lease = Lease(received.lease, self.scene.clock.now_ns, received.visible_ns)
        say(partial(Ledger.is_received, queue=name, got=got, lease=lease, gone=gone))
        return received

    async def release(self, received: Received) -> None:
        self.scene.say(partial(Ledger.asks_release, message_id=received.message_id))
        await self.store.release(received)

    async def remove(self, queue: str, message_id: str, lease: int | None = None) -> None:
        """With a lease, only under it."""
        say = self.scene.say
        leases = None if lease is None else frozenset({lease})
        say(partial(Ledger.asks_remove, message_id=message_id))
        why, is_certain = "503", False
        try:
            await self.store.remove(QueueName(queue), MessageId(message_id), leases)
        except StoreUnavailable:
            pass
        except (MessageNotFound, QueueNotFound):
            why, is_certain = "404", True
        except LeaseMismatch:
            why, is_certain = "412", True
        else:
            say(partial(Ledger.is_removed, message_id=message_id))
            return
        say(partial(Ledger.is_not_removed, message_id=message_id, is_certain=is_certain, why=why))
