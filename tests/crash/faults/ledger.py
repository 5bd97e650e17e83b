"""What a client was answered, and whether the root keeps it."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

from mq.lifecycle import Folder
from mq.spool.message.seal import SEAL_ATTRIBUTE, Seal
from mq.spool.message.trailer import split
from mq.spool.root_format import LONG_SEALS, read_format

HOMES = (Folder.NEW, Folder.QUEUES, Folder.DELAY)
"""Where a message is that may still be delivered."""

Places = list[tuple[str, str]]
"""The queue and the folder of each file of a message."""


class FaultLedger:
    """Bodies and ids as a client knows them. Each note says under which fault it was made."""

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        """Every body that was ever sent, answered or not."""
        self.batches: list[frozenset[bytes]] = []
        """The bodies that were sent in one request: all of them are there or none."""
        self.copies: dict[bytes, int] = {}
        """To how many queues a body was sent, if to several: all have it, or none."""
        self.handovers: dict[str, frozenset[bytes]] = {}
        """What a message was handed over for: that is there, or the message."""
        self.published: dict[str, bytes] = {}
        self.queues: dict[str, str] = {}
        self.asked_to_remove: set[str] = set()
        self.removed: set[str] = set()
        self.leased: set[tuple[str, str]] = set()
        """Queue and id of what was received, and not given back: for longer than the test takes
        nobody else gets it."""
        self.notes: dict[str, str] = {}
        self.may_keep_names = False
        """Whether a file may be in two queues: a move between them that is a link and an unlink
        leaves it in both if the unlink fails, and each delivers it."""

    def messages_of(self, queue: str) -> set[str]:
        return {message_id for message_id, name in self.queues.items() if name == queue}

    def must_be_there(self) -> set[str]:
        return self.published.keys() - self.asked_to_remove

    def violations(self, root: Path) -> list[str]:
        """What the files say against it, in words."""
        homes, whole = _find(root, self.may_keep_names)
        wrong = [f"{message_id} is not there" for message_id in self.must_be_there() - homes.keys()]
        wrong += [
            f"{message_id} is there as {places}"
            for message_id, places in homes.items()
            if not self._are_one_in_each(places, whole[message_id])
        ]
        wrong += [f"{message_id} was removed" for message_id in self.removed & homes.keys()]
        wrong += [
            f"{message_id} was leased and lies in {homes[message_id]}"
            for queue, message_id in self.leased
            if message_id in self.must_be_there() and (queue, "delay") not in homes[message_id]
        ]
        there = set(whole.values())
        wrong += [
            f"a batch of {len(b)} is there in part"
            for b in self.batches
            if 0 < len(b & there) < len(b)
        ]
        wrong += [
            f"{message_id} was handed over in part"
            for message_id, bodies in self.handovers.items()
            if (message_id in homes) == bool(bodies & there)
        ]
        for message_id, body in whole.items():
            if body is None or body not in self.sent:
                wrong.append(f"{message_id} is torn")
            elif self.published.get(message_id, body) != body:
                wrong.append(f"{message_id} has another's body")
        return [f"{line} ({self._note_of(line)})" for line in wrong]

    def _are_one_in_each(self, places: Places, body: bytes | None) -> bool:
        """Whether each queue that the body was sent to has one message."""
        queues = {queue for queue, _ in places}
        return len(places) == len(queues) == self.copies.get(body or b"", 1)

    def _note_of(self, line: str) -> str:
        return self.notes.get(line.partition(" ")[0], "nobody was told of it")


def _find(root: Path, may_keep_names: bool) -> tuple[dict[str, Places], dict[str, bytes | None]]:
    """Where each message lies, and its body, None if one of its files fails its seal."""
    files: set[int] = set()
    homes: dict[str, Places] = defaultdict(list)
    bodies: dict[str, bytes | None] = {}
    formats: set[str | None] = set()
    for folder in HOMES:
        for path in _files(root / folder):
            queue, _, message_id = path.name.rpartition(":")
            if may_keep_names and path.stat().st_ino in files:
                continue
            files.add(path.stat().st_ino)
            homes[message_id].append((queue or path.parent.name, str(folder)))
            try:
                seal = Seal.unpack(os.getxattr(path, SEAL_ATTRIBUTE))
            except OSError:
                seal = None
            content = split(seal, path.read_bytes())
            if content is None or bodies.setdefault(message_id, content.body) != content.body:
                bodies[message_id] = None
            formats |= {LONG_SEALS} if seal is not None and seal.is_long else set()
    assert formats <= {read_format(root)}
    return homes, bodies


def _files(folder: Path) -> list[Path]:
    """Those that may be messages: settings are not."""
    return [path for path in folder.rglob("[!.]*") if path.is_file()]
