"""Try out what a root's file system can do: each ability that MQ relies on or makes use of.

The trial is made in a folder of its own, which is removed at the end: in the root if there is one,
else in the nearest folder above. Nothing of MQ is touched.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mq.disk.files import HIDDEN, LACKS_RENAME_FLAGS, LACKS_UNNAMED_FILES, Files
from mq.names import MessageId, QueueName, file_name
from mq.spool.file_system import (
    file_system_kind,
    is_of_network,
    keeps_order,
    nearest_folder,
    stamp_granularity_ns,
)
from mq.spool.message.seal import SEAL_ATTRIBUTE
from mq.spool.network_files import NetworkFiles
from mq.spool.root_format import FORMAT_FILE
from mq.spool.watch import Watch

_MODE = 0o700
_MISSING = LACKS_RENAME_FLAGS | LACKS_UNNAMED_FILES | {errno.ENOLCK, errno.EPERM, errno.EBADF}


class Ability(NamedTuple):
    """An ability of the file system: `found` says what was found out. Without one that `is_needed`
    no server starts."""

    name: str
    is_there: bool
    found: str
    is_needed: bool = False


def try_abilities(root: Path) -> list[Ability]:
    """Try everything out. Raises OSError if no file can be made there, or what is tried fails in
    another way than one that says that it is missing: then its name is in place of a file's."""
    with suppress(FileNotFoundError):
        os.stat(f"{root}/.")  # A file in the place of the root, or above it, keeps a server out.
    above = nearest_folder(root)
    kind = file_system_kind(above)
    with _trial_folder(above) as path:
        files = NetworkFiles(path) if is_of_network(kind) else Files()
        trial = _Trial(path, files, kind)
        try:
            return list(trial.abilities())
        finally:
            files.close(trial.fd)


@contextmanager
def _trial_folder(above: Path) -> Iterator[Path]:
    files, path = Files(), above / f"{HIDDEN}mq-check-{uuid.uuid4()}"
    files.make_folder(None, str(path), _MODE)
    try:
        yield path
    finally:
        _remove(files, path)


def _remove(files: Files, path: Path) -> None:
    fd = files.open_folder(None, str(path))
    try:
        for name in os.listdir(fd):
            files.unlink(fd, name)
        files.remove_folder(fd, str(path))
    finally:
        files.close(fd)


class _Trial:
    def __init__(self, path: Path, files: Files, kind: str) -> None:
        self._path, self._files, self._kind = path, files, kind
        self.fd = files.open_folder(None, str(path))
        self._make(FORMAT_FILE)

    def _make(self, name: str) -> str:
        self._files.close(self._files.create(self.fd, name, 0o600))
        return name

    def abilities(self) -> Iterator[Ability]:
        is_network = self._files.is_of_network
        shared = "yes: other machines may work on it" if is_network else "no: this machine alone"
        yield Ability("network file system", is_network, f"{self._kind}; {shared}")
        yield self._try("names with a colon", self._names, "no message has a name", is_needed=True)
        yield self._try("rename without replacing", self._renames, "looks first, then renames")
        yield self._try("exchange of two names", self._exchanges, "a purge moves each message")
        yield self._try("unnamed files", self._makes_unnamed, "uploads have hidden names")
        yield self._try("hard links", self._links, "none")
        yield self._try("extended attributes", self._seals, "no seals, counts or properties")
        for name, lock in (
            ("lock of a file", self._locks_file),
            ("lock of a folder", self._locks_folder),
            ("lock of a byte", self._locks_byte),
        ):
            yield self._try(name, lock, "two processes could take one message", is_needed=True)
        yield self._try("sync of a file", lambda: self._syncs(FORMAT_FILE), "none", is_needed=True)
        yield self._try("sync of a folder", lambda: self._syncs("."), "none", is_needed=True)
        yield Ability(
            "sync of everything",
            not is_network,
            "each file and folder by itself" if is_network else "syncfs",
        )
        is_ordered = keeps_order(self._path, self._kind)
        yield Ability(
            "renames in order over a power cut",
            is_ordered,
            "known of this file system" if is_ordered else "not known of this file system",
        )
        yield self._try("events of this machine", self._tells, "folders are listed instead")
        yield Ability(
            "events of other machines",
            False,
            "folders are listed instead" if is_network else "there are none",
        )
        ns = self._granularity_ns()
        yield Ability("times", ns <= 1_000_000, f"to {ns} ns")

    def _try(
        self, name: str, work: Callable[[], bool], otherwise: str, *, is_needed: bool = False
    ) -> Ability:
        try:
            is_there = work()
        except OSError as error:
            if error.errno not in _MISSING:
                raise OSError(error.errno, error.strerror, name) from error
            is_there, otherwise = False, f"{otherwise} ({error.strerror})"
        return Ability(name, is_there, "works" if is_there else otherwise, is_needed)

    def _names(self) -> bool:
        self._make(file_name(QueueName("queue"), MessageId("id")))
        return True

    def _renames(self) -> bool:
        one, two = self._make("one"), self._make("two")
        with suppress(FileExistsError):
            self._files.rename_once(self.fd, one, self.fd, two)
            return False
        self._files.rename_once(self.fd, one, self.fd, "three")
        return self._files.renames_without_replacing

    def _exchanges(self) -> bool:
        self._files.exchange(self.fd, self._make("four"), self.fd, self._make("five"))
        return True

    def _makes_unnamed(self) -> bool:
        fd = self._files.open_unnamed(self.fd, 0o600)
        try:
            self._files.link(fd, self.fd, "six")
        finally:
            self._files.close(fd)
        return self._files.has_unnamed_files

    def _links(self) -> bool:
        with open(self._path / self._make("seven"), "rb") as file:
            self._files.link(file.fileno(), self.fd, "eight")
        return True

    def _seals(self) -> bool:
        with open(self._path / self._make("nine"), "rb") as file:
            self._files.set_attribute(file.fileno(), SEAL_ATTRIBUTE, bytes(48))
            return self._files.attribute(file.fileno(), SEAL_ATTRIBUTE) == bytes(48)

    def _locks_file(self) -> bool:
        self._make("ten")
        return self._locks(lambda: self._files.open_message(self.fd, "ten"), self._files.lock)

    def _locks_folder(self) -> bool:
        return self._locks(lambda: self._files.open_folder(self.fd, "."), self._files.lock)

    def _locks_byte(self) -> bool:
        path = f"{self._path}/{FORMAT_FILE}"
        return self._locks(
            lambda: self._files.open_to_lock(path), lambda fd: self._files.lock_byte(fd, 1 << 55)
        )

    def _locks(self, open_one: Callable[[], int], lock: Callable[[int], bool]) -> bool:
        one, other = open_one(), open_one()
        try:
            return lock(one) and not lock(other)
        finally:
            self._files.close(one)
            self._files.close(other)

    def _syncs(self, name: str) -> bool:
        fd = os.open(name, os.O_RDONLY, dir_fd=self.fd)
        try:
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        return True

    def _tells(self) -> bool:
        try:
            watch = Watch()
        except OSError as error:  # A server starts all the same where the limits are reached.
            raise OSError(errno.EOPNOTSUPP, error.strerror) from error
        with closing(watch):
            watch.add("trial", str(self._path))
            name = self._make("eleven")
            return any(each.name == name for each in watch.read(1.0))

    def _granularity_ns(self) -> int:
        with open(self._path / self._make("twelve"), "rb") as file:
            return stamp_granularity_ns(self._files, file.fileno())
