"""A mover, a reaper, servers and a person's hands on one recorded disk."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mq.lifecycle import PurgeScope
from mq.names import QueueName
from mq.spool.batch_names import new_batch_name
from mq.spool.message.seal import SEAL_ATTRIBUTE, Seal
from tests.crash.enumeration.clock import LONG_SECONDS, SECOND_NS, StoppedClock
from tests.crash.enumeration.disk import RecordedDisk
from tests.crash.enumeration.interference import Interference
from tests.crash.enumeration.known import LedgerMessage
from tests.crash.enumeration.ledger import Ledger
from tests.crash.enumeration.promises import Is
from tests.crash.enumeration.properties import WITH_PROPERTIES
from tests.crash.enumeration.recorder import MODERN, Abilities, RecordedFiles
from tests.crash.enumeration.restart import reap
from tests.crash.enumeration.server import PlayedServer
from tests.support.redelivery import move_due


class Scene:
    """A root on a disk, everybody who works on it, and what its clients know."""

    def __init__(
        self,
        root: Path,
        clock: StoppedClock,
        abilities: Abilities = MODERN,
        max_receives: int = 0,
        interference: Interference | None = None,
    ) -> None:
        root.mkdir(mode=0o700, parents=True)
        self.root = root
        self.clock = clock
        self.disk = RecordedDisk(root)
        self.max_receives = max_receives
        self.ledger = Ledger(max_receives)
        self.since = 0
        self.is_over = False
        self.has_seals = abilities.attributes
        self._abilities = abilities
        self._interference = interference or Interference()
        self._servers: list[PlayedServer] = []
        self._bodies = 0

    def files(self) -> RecordedFiles:
        return self._interference.files(self.disk, self._abilities)

    def open_server(self, files: RecordedFiles) -> PlayedServer:
        """It is closed with the scene."""
        settings = {"max_receives": self.max_receives, "visibility_seconds": LONG_SECONDS}
        server = PlayedServer(self.root, files, self.clock, **settings)
        server.committer.wrap = self._interference.wrap
        self._servers.append(server)
        return server

    def close(self) -> None:
        for server in self._servers:
            server.close()

    def say(self, fact: Callable[[Ledger], None]) -> None:
        fact(self.ledger)
        self.disk.say(fact)

    def begin(self) -> None:
        """The run proper: what was before is not cut."""
        self.since = len(self.disk.events)
        self._interference.begin()

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

    def body_with_properties(self, size: int) -> bytes:
        """Return a body as `body` does; `properties_of` and `type_of` say which properties and
        type such a message has."""
        return WITH_PROPERTIES + self.body(size)

    def bodies_in(self, queue: str, scope: PurgeScope = PurgeScope.ALL) -> list[bytes]:
        """Return the bodies of the messages that are published in a queue, or may be ready."""
        return [
            each.body
            for each in self.ledger.of_queue(queue)
            if each.is_published and not (scope is PurgeScope.READY and self._is_hidden(each))
        ]

    def _is_hidden(self, message: LedgerMessage) -> bool:
        return message.hidden is Is.SURE and message.hidden_until_ns > self.clock.now_ns

    def move(self, source: str = "delay") -> None:
        move_due(self.root, self.files(), self.max_receives, source)

    def reap(self) -> None:
        reap(self.root, self.files())

    def place(
        self, path: str, body: bytes, seal: Seal | None = None, due_seconds: float = 0.0
    ) -> None:
        """A file that a person put there. Nothing was promised of it."""
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

    def place_batch(self, queue: str, message_id: str, body: bytes) -> None:
        """A batch of one message, as a publisher leaves it who is killed before the seal is
        synced."""
        files = RecordedFiles(self.disk, self._abilities)
        new = files.open_folder(None, str(self.root / "new"))
        batch = new_batch_name(QueueName(queue))
        files.make_folder(new, batch.open, 0o700)
        self.place(f"new/{batch.open}/{queue}:{message_id}", body, seal_of(body, self.clock()))
        self.settle()
        files.rename(new, batch.open, new, batch.sealed)
        files.close(new)

    def place_damaged(self, where: str, size: int) -> None:
        """A message that fails its seal."""
        body = self.body(size)
        self.place(f"{where}damaged-{len(body)}-{self._bodies}", body, seal_of(body + b"more", 0))
        self.settle()
        self.say(partial(Ledger.keeps, content=body))


def seal_of(body: bytes, published_ns: int) -> Seal:
    return Seal(len(body), zlib.crc32(body), published_ns, 0, 0)
