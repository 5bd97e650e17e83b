"""What the client was told before the cut, against what the file system has after it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from mq.lifecycle import Folder
from mq.spool.message.seal import SEAL_ATTRIBUTE, Seal
from tests.crash.cuts.bodies import token_of

_HOMES = (Folder.NEW, Folder.QUEUES, Folder.DELAY)
_US = 1_000


class SeenLease(NamedTuple):
    """As it was answered: until when nobody else gets the message, and the ETag; and when the
    request was sent and the answer read."""

    visible_ns: int
    etag: str
    asked_ns: int
    answered_ns: int


class LedgerFile(NamedTuple):
    """A message that may still be delivered, as it lies there."""

    folder: str
    lease: int | None
    mtime_ns: int
    token: str | None


class CutLedger:
    """All that the client asked for and was answered, over any number of cuts."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        """Tokens of all bodies ever sent."""
        self.published: dict[str, str] = {}
        self.asked_to_remove: set[str] = set()
        self.removed: dict[str, int] = {}
        """When that answer was read."""
        self.leases: dict[str, SeenLease] = {}
        self.made: set[str] = set()
        self.asked_to_delete: set[str] = set()
        self.deleted: set[str] = set()
        self.answers = 0
        self.wrong: list[str] = []
        """What no client should have been told, whatever was cut."""
        self._queues: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        """The id of each token, which was sent once."""

    def read(self, lines: Iterable[bytes], *, certain: bool) -> None:
        """Take in a piece of the log. What was answered only after the instant of the cut, or
        perhaps so, is not certain: it may be there or not."""
        for line in lines:
            word, *event = json.loads(line)
            if word.startswith("asked"):
                self._note_question(word, *event)
            elif certain:
                self.answers += 1
                self._note_answer(word, *event)
            elif word == "leased":
                # An earlier lease was over then; whether this one is known, nobody can say.
                self.leases.pop(event[0], None)

    def _note_question(self, word: str, subject: str, *_: object) -> None:
        if word == "asked to publish":
            self.asked.add(subject)
        elif word == "asked to remove":
            self.asked_to_remove.add(subject)
        elif word == "asked to delete":
            self.asked_to_delete.add(subject)
            self.asked_to_remove |= {i for i, queue in self._queues.items() if queue == subject}

    def _note_answer(self, word: str, subject: str, *more: Any) -> None:
        if word == "published":
            self.published[subject], self._queues[subject] = more
            self._ids[self.published[subject]] = subject
        elif word == "leased":
            self.note_lease(subject, *more)
        elif word == "removed":
            [self.removed[subject]] = more
        elif word == "made":
            self.made.add(subject)
        elif word == "deleted":
            self.deleted.add(subject)

    def note_lease(
        self, message_id: str, token: str | None, etag: str, visible_at: str, *times_ns: int
    ) -> None:
        """Note that a message was delivered: never a torn, a removed or a leased one.

        The log's lines of two connections are in no certain order; the times say what is.
        """
        if token is None or self.published.get(message_id, token) != token:
            self.wrong.append(f"{message_id} was given out torn, or with another's body")
        else:
            self.wrong += self._wrong_origin(message_id, token)
        lease = SeenLease(_ns(visible_at), etag, *times_ns)
        if self.removed.get(message_id, lease.asked_ns) < lease.asked_ns:
            self.wrong.append(f"{message_id} was removed and given out again")
        first, last = sorted([lease, self.leases.get(message_id, lease)])
        if first is not last and last.answered_ns < first.visible_ns:
            self.wrong.append(f"{message_id} was given out under somebody's lease")
        self.leases[message_id] = last

    def _wrong_origin(self, message_id: str, token: str) -> list[str]:
        """What is wrong with a message of that token, as far as it tells who sent it."""
        if token not in self.asked:
            return [f"{message_id} was sent by nobody"]
        other = self._ids.setdefault(token, message_id)
        return [] if other == message_id else [f"{message_id} is {other} under a second id"]

    def must_be_there(self) -> set[str]:
        return self.published.keys() - self.asked_to_remove

    def violations(self, root: Path) -> list[str]:
        """What the files of a root that nobody serves say against it, in words."""
        now_ns = time.time_ns()
        found = find_files(root)
        queues = {path.name for path in (root / "queues").glob("*")}
        wrong = [f"{i} is lost" for i in self.must_be_there() - found.keys()]
        wrong += [f"{i} is there twice" for i, files in found.items() if len(files) > 1]
        wrong += [f"{i} was removed and is back" for i in self.removed.keys() & found.keys()]
        wrong += [f"queue {q} is lost" for q in self.made - self.asked_to_delete - queues]
        wrong += [f"queue {q} was deleted and is back" for q in self.deleted & queues]
        for message_id, (file, *_) in found.items():
            if message_id in self.published and file.token != self.published[message_id]:
                wrong.append(f"{message_id} is torn")
            elif file.token is not None:
                wrong += self._wrong_origin(message_id, file.token)
            lease = self.leases.get(message_id)
            if lease is not None and lease.visible_ns > now_ns and not _keeps(file, lease):
                wrong.append(f"{message_id}: its lease is forgotten")
        return self.wrong + wrong


def find_files(root: Path) -> dict[str, list[LedgerFile]]:
    """Return the files of each message, by its id."""
    found: dict[str, list[LedgerFile]] = {}
    for folder in _HOMES:
        for path in (root / folder).rglob("*"):
            if path.is_file() and not path.name.startswith("."):
                message_id = path.name.rpartition(":")[2]
                found.setdefault(message_id, []).append(_read(str(folder), path))
    return found


def _read(folder: str, path: Path) -> LedgerFile:
    seal = Seal.unpack(os.getxattr(path, SEAL_ATTRIBUTE))
    lease = None if seal is None else seal.lease
    return LedgerFile(folder, lease, path.stat().st_mtime_ns, token_of(path.read_bytes()))


def _keeps(file: LedgerFile, lease: SeenLease) -> bool:
    is_same = file.lease is not None and f'"{file.lease:016x}"' == lease.etag
    return file.folder == "delay" and is_same and file.mtime_ns >= lease.visible_ns


def _ns(rfc3339: str) -> int:
    """To the microsecond, as far as such a time says it."""
    return int(datetime.fromisoformat(rfc3339).timestamp() * 1_000_000) * _US
