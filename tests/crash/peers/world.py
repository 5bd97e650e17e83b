"""What a root holds, as its files say."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mq.disk.files import Files
from mq.ids import order_key
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.message.seal import SEAL_ATTRIBUTE, Seal
from mq.store.reservations import Reservations


class Seen(NamedTuple):
    """A message that is in `new`, in its queue or in `delay`. `due_ns` is 0 but in `delay`."""

    queue: QueueName
    place: Folder
    lease: int
    receives: int
    due_ns: int
    published_ns: int
    inode: int
    path: Path

    @property
    def is_ready(self) -> bool:
        return self.place is Folder.QUEUES


class World(NamedTuple):
    """`gone` are the inodes of what is removed, and of what belongs to a queue that is deleted.
    `held` are the messages that are locked, `reserved` those that a server is about to lock."""

    now_ns: int
    settings: Mapping[QueueName, Mapping[str, str]]
    messages: Mapping[MessageId, Seen]
    gone: frozenset[int]
    held: frozenset[MessageId]
    reserved: frozenset[MessageId]

    def of_queue(self, queue: QueueName) -> dict[MessageId, Seen]:
        return {each: seen for each, seen in self.messages.items() if seen.queue == queue}

    def ready(self, queue: QueueName) -> list[MessageId]:
        """Return the ready messages in their order."""
        found = {each: seen for each, seen in self.of_queue(queue).items() if seen.is_ready}
        return sorted(found, key=lambda each: order_key(each, found[each].published_ns))

    def is_in(self, queue: QueueName, message_id: MessageId) -> bool:
        seen = self.messages.get(message_id)
        return seen is not None and seen.queue == queue

    def shows(self, queue: QueueName, message_id: MessageId) -> bool:
        """Whether anybody can know that the message is in the queue."""
        is_in = self.is_in(queue, message_id)
        return is_in and self.messages[message_id].place is not Folder.NEW

    def setting(self, queue: QueueName, name: str, default: float) -> float:
        return float(self.settings.get(queue, {}).get(name, default))

    def is_paused(self, queue: QueueName) -> bool:
        return self.settings.get(queue, {}).get("paused") == "true"

    def is_expired(self, queue: QueueName, message_id: MessageId) -> bool:
        """Whether its ttl is over by now."""
        age_ns = self.now_ns - self.messages[message_id].published_ns
        return age_ns >= self.setting(queue, "ttl", float("inf")) * 1e9

    def dead_letters(self, queue: QueueName, count: int, max_receives: int) -> QueueName | None:
        """Return where a message goes that comes back, or None if it lives on."""
        most = self.setting(queue, "max-receives", max_receives)
        if queue.endswith(".dead") or not 0 < most <= count:
            return None
        return QueueName(self.settings.get(queue, {}).get("dead-letters", f"{queue}.dead"))


def look(root: Path, now_ns: int, *, with_locks: bool) -> World:
    """Return what the root holds now. Raises AssertionError if a message is in two places."""
    queues = [QueueName(each) for each in sorted(os.listdir(root / "queues"))]
    messages: dict[MessageId, Seen] = {}
    orphans: set[int] = set()
    for queue, place, message_id, path in _files(root, queues):
        status = path.stat()
        if queue not in queues:
            orphans.add(status.st_ino)
            continue
        seal = Seal.unpack(os.getxattr(path, SEAL_ATTRIBUTE))
        assert seal is not None
        due_ns = status.st_mtime_ns if place is Folder.DELAY else 0
        assert message_id not in messages, f"{path} and {messages[message_id].path}"
        messages[message_id] = Seen(
            queue, place, seal.lease, seal.receive_count, due_ns, seal.published_ns,
            status.st_ino, path,
        )  # fmt: skip
    removed = {path.lstat().st_ino for path in (root / "remove").rglob("*")}
    held = {each for each, seen in messages.items() if with_locks and _is_held(seen.path)}
    reserved = _reserved(root, messages) if with_locks else frozenset[MessageId]()
    settings = {queue: _settings(root / "queues" / queue / ".settings") for queue in queues}
    gone = frozenset(removed | orphans)
    return World(now_ns, settings, messages, gone, frozenset(held), reserved)


def _files(
    root: Path, queues: list[QueueName]
) -> Iterator[tuple[QueueName, Folder, MessageId, Path]]:
    """A batch is published once its folder is sealed."""
    batches = (root / "new").glob(".*:*")
    sealed = [each for each in batches if each.suffix != ".open" and each.is_dir()]
    for folder, place in (
        (root / "new", Folder.NEW),
        (root / "delay", Folder.DELAY),
        *((each, Folder.NEW) for each in sealed),
    ):
        for path in sorted(folder.iterdir()):
            queue, colon, message_id = path.name.partition(":")
            if queue and colon:
                yield QueueName(queue), place, MessageId(message_id), path
    for queue in queues:
        for path in sorted((root / "queues" / queue).iterdir()):
            if not path.name.startswith("."):
                yield queue, Folder.QUEUES, MessageId(path.name), path


def _settings(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    pairs = (line.partition("=") for line in path.read_text().splitlines())
    return {name: value for name, _, value in pairs}


def _is_held(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _reserved(root: Path, messages: Mapping[MessageId, Seen]) -> frozenset[MessageId]:
    ours = Reservations(Files(), str(root))
    try:
        return frozenset(
            each for each, seen in messages.items() if not ours.reserve(seen.queue, [each], 1)
        )
    finally:
        ours.close()
