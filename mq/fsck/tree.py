"""The root itself: its folders, their modes, its format file. They are looked at by path, because a
folder that is missing or locked cannot be opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path

from mq.disk.files import Files
from mq.errors import ExitCode, StartRefused
from mq.fsck.strays import FILE_NEEDS, FOLDER_NEEDS, kind_of, refuse_foreign, why_shut_out
from mq.fsck.suspect import FindingKind, Suspect, SuspectPlace
from mq.lifecycle import FIXED_FOLDERS, Folder
from mq.spool.message.held import seal_at
from mq.spool.root import refuse_foreign_owner
from mq.spool.root_format import (
    FORMAT,
    FORMAT_FILE,
    LONG_SEALS,
    fill_format,
    raise_format,
    read_format,
    write_format,
)
from mq.spool.spool import Spool


def suspects_of_tree(root: Path, files: Files) -> Iterator[Suspect]:
    """Yield what may be wrong with the root itself. Raises StartRefused if it is not a root, or
    belongs to another user."""
    if root.exists():
        refuse_foreign_owner(root, root)
    yield WrongFolderMode(root, files, ".")
    present = [folder for folder in FIXED_FOLDERS if (root / folder).is_dir()]
    if not present and not (root / FORMAT_FILE).exists():
        raise StartRefused(
            ExitCode.ROOT, f"{root} is not a root of MQ: it has none of the folders of one"
        )
    for folder in FIXED_FOLDERS:
        yield MissingFolder(root, files, folder)
    for folder in (*FIXED_FOLDERS, Folder.CORRUPT, Folder.SPARK):
        yield InPlaceOf(root, folder, "folder")
        yield WrongFolderMode(root, files, folder)
    yield InPlaceOf(root, FORMAT_FILE, "file")
    yield MissingFormat(root, files)
    yield WrongFormatMode(root, files)
    yield BlankFormat(root, files)


def is_whole(root: Path, files: Files) -> bool:
    """Return whether a root has the folders without which nothing can be looked at, no link or
    other thing in the place of one or of its format, and no blank format."""
    suspects: list[Suspect] = [InPlaceOf(root, folder, "folder") for folder in FIXED_FOLDERS]
    suspects += InPlaceOf(root, FORMAT_FILE, "file"), BlankFormat(root, files)
    return all((root / folder).exists() for folder in FIXED_FOLDERS) and not any(
        each.look() for each in suspects
    )


@dataclass(frozen=True)
class InPlaceOf:
    """A link, or something else, that has the name of a folder of the root or of its format. No
    process follows a link there. Only a person knows where the messages are."""

    root: Path
    path: str
    wanted: str
    kind = FindingKind.FOREIGN

    def look(self) -> str | None:
        try:
            status = (self.root / self.path).lstat()
        except FileNotFoundError:
            return None
        is_wanted = stat.S_ISDIR if self.wanted == "folder" else stat.S_ISREG
        return None if is_wanted(status.st_mode) else f"{kind_of(status)}, not a {self.wanted}"

    def mend(self) -> str | None:
        raise OSError(0, "move it away, and what belongs there into its place")


@dataclass(frozen=True)
class MissingFolder:
    root: Path
    files: Files
    path: str
    kind = FindingKind.MISSING

    def look(self) -> str | None:
        return None if os.path.lexists(self.root / self.path) else "the folder is not there"

    def mend(self) -> str | None:
        """Make it open to those whom both the root and its other folders admit: the root may be a
        folder that others made for MQ, open to all."""
        there = [path for each in FIXED_FOLDERS if (path := self.root / each).is_dir()]
        admitted = reduce(and_, map(_mode, [self.root, *there])) & 0o777 if there else 0
        self.files.make_folder(None, str(self.root / self.path), admitted | FOLDER_NEEDS)
        return "made"


@dataclass(frozen=True)
class MissingFormat:
    root: Path
    files: Files
    path = FORMAT_FILE
    kind = FindingKind.MISSING

    def look(self) -> str | None:
        return None if os.path.lexists(self.root / FORMAT_FILE) else "the file is not there"

    def mend(self) -> str | None:
        """Let it say what a root may have that had messages with properties: a server that is
        running may go on writing their seals."""
        write_format(self.root, self.files, LONG_SEALS)
        return f"written as {LONG_SEALS!r}"


@dataclass(frozen=True)
class BlankFormat:
    """A format file that is empty, or of zeros: a copy was cut off, or the power failed. No server
    opens such a root."""

    root: Path
    files: Files
    path = FORMAT_FILE
    kind = FindingKind.FORMAT

    def look(self) -> str | None:
        if InPlaceOf(self.root, FORMAT_FILE, "file").look() is not None:
            return None  # That is a finding of its own.
        return "the file is blank" if read_format(self.root) == "" else None

    def mend(self) -> str | None:
        fill_format(self.root, self.files)
        return f"written as {LONG_SEALS!r}"


@dataclass(frozen=True)
class OldFormat:
    """The root says `mq 1`, but the message at `place`, which a person put there, needs `mq 2`. A
    version that does not know its seal would open the root."""

    spool: Spool
    place: SuspectPlace
    path = FORMAT_FILE
    kind = FindingKind.FORMAT

    def look(self) -> str | None:
        try:
            seal = seal_at(self.spool, *self.place)
        except OSError:
            return None  # It is gone, or a finding of its own.
        if seal is None or not seal.is_long or read_format(self.spool.root) != FORMAT:
            return None
        return f"it says {FORMAT!r}, and {self.place} needs {LONG_SEALS!r}"

    def mend(self) -> str | None:
        raise_format(self.spool.root, self.spool.files)
        return f"written as {LONG_SEALS!r}"


@dataclass(frozen=True)
class WrongFolderMode:
    """A folder with the wrong mode. `path` is "." for the root."""

    root: Path
    files: Files
    path: str
    kind = FindingKind.MODE

    def look(self) -> str | None:
        path = self.root / self.path
        if not path.is_dir() or (self.path != "." and path.is_symlink()):
            return None  # That is a finding of its own.
        mode = _mode(path)
        if mode & FOLDER_NEEDS == FOLDER_NEEDS:
            return None
        return f"mode {mode:04o} shuts its owner out"

    def mend(self) -> str | None:
        mode = _mode(self.root / self.path) | FOLDER_NEEDS
        self.files.set_mode(None, str(self.root / self.path), mode)
        return f"mode {mode:04o}"


@dataclass(frozen=True)
class WrongFormatMode:
    """A format file that the owner of the root cannot read and write: its bytes are locks."""

    root: Path
    files: Files
    path = FORMAT_FILE
    kind = FindingKind.MODE

    def look(self) -> str | None:
        try:
            status = (self.root / FORMAT_FILE).lstat()
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None  # That is a finding of its own.
        return why_shut_out(status, FILE_NEEDS, self.root.stat().st_uid)

    def mend(self) -> str | None:
        path = self.root / FORMAT_FILE
        refuse_foreign(path.lstat(), self.root.stat().st_uid)
        mode = _mode(path) | FILE_NEEDS
        self.files.set_mode(None, str(path), mode)
        return f"mode {mode:04o}"


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
