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


class FaultLedger:
    """Bodies and ids as a client knows them. Each note says under which fault it was made."""

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        """Every body that was ever sent, answered or not."""
        self.batches: list[frozenset[bytes]] = []
        """The bodies that were sent in one request: all of them are there or none."""
        self.published: dict[str, bytes] = {}
        self.queues: dict[str, str] = {}
        self.asked_to_remove: set[str] = set()
        self.removed: set[str] = set()
        self.leased: set[str] = set()
        """Received, and not given back: for longer than the test takes nobody else gets them."""
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
        wrong = [
            f"{message_id} is {len(homes[message_id])} times there"
            for message_id in self.must_be_there()
            if len(homes[message_id]) != 1
        ]
        wrong += [f"{i} is there twice" for i, places in homes.items() if len(places) > 1]
        wrong += [f"{message_id} was removed" for message_id in self.removed & homes.keys()]
        wrong += [
            f"{message_id} was leased and lies in {homes[message_id]}"
            for message_id in self.leased & self.must_be_there()
            if homes[message_id] != ["delay"]
        ]
        there = set(whole.values())
        wrong += [
            f"a batch of {len(b)} is there in part"
            for b in self.batches
            if 0 < len(b & there) < len(b)
        ]
        for message_id, body in whole.items():
            if body is None or body not in self.sent:
                wrong.append(f"{message_id} is torn")
            elif self.published.get(message_id, body) != body:
                wrong.append(f"{message_id} has another's body")
        return [f"{line} ({self._note_of(line)})" for line in wrong]

    def _note_of(self, line: str) -> str:
        return self.notes.get(line.partition(" ")[0], "nobody was told of it")


def _find(root: Path, may_keep_names: bool) -> tuple[dict[str, list[str]], dict[str, bytes | None]]:
    """The folders each message lies in, and its body, None if that fails its seal."""
    files: set[int] = set()
    homes: dict[str, list[str]] = defaultdict(list)
    bodies: dict[str, bytes | None] = {}
    formats: set[str | None] = set()
    for folder in HOMES:
        for path in _files(root / folder):
            message_id = path.name.rpartition(":")[2]
            if may_keep_names and path.stat().st_ino in files:
                continue
            files.add(path.stat().st_ino)
            homes[message_id].append(str(folder))
            try:
                seal = Seal.unpack(os.getxattr(path, SEAL_ATTRIBUTE))
            except OSError:
                seal = None
            content = split(seal, path.read_bytes())
            bodies[message_id] = None if content is None else content.body
            formats |= {LONG_SEALS} if seal is not None and seal.is_long else set()
    assert formats <= {read_format(root)}
    return homes, bodies


def _files(folder: Path) -> list[Path]:
    """Those that may be messages: settings are not."""
    return [path for path in folder.rglob("[!.]*") if path.is_file()]
