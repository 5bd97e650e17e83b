"""The one gate for every rename, link and unlink of a message: the table decides, by actor.

A process that works on a whole root asks its `Spool`, which asks a gate. One that knows a folder or
two of a root, as the mover and the reaper do, has a gate of its own. A test checks that no call in
the packages bypasses a gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mq.disk.calls import RENAME, Call, run
from mq.disk.files import Files
from mq.lifecycle import Actor, Folder, MoveRefused, allowed_moves


class OpenFolder(NamedTuple):
    """A folder of the table, and an open descriptor of it or of a folder inside it."""

    folder: Folder
    fd: int


class Moves:
    """The moves that `actor` may make. Each method raises MoveRefused before it does anything if
    the table gives that move only to other actors; otherwise it raises what the same method of
    `Files` raises."""

    def __init__(self, files: Files, actor: Actor) -> None:
        self.files = files
        self.actor = actor
        self.allowed = allowed_moves(actor)

    def require(self, source: Folder | None, target: Folder | None) -> None:
        """Raise MoveRefused unless the actor may make that move. None means outside of the root,
        where a message begins and ends."""
        if (source, target) not in self.allowed:
            raise MoveRefused(self.actor, source, target)

    def rename(
        self, source: OpenFolder, source_name: str, target: OpenFolder, target_name: str
    ) -> None:
        """Move atomically and never replace."""
        self.require(source.folder, target.folder)
        self.files.rename(source.fd, source_name, target.fd, target_name)

    def exchange(self, source: OpenFolder, name: str, target: OpenFolder, empty: str) -> None:
        """Move a folder with all that is in it, and an empty one into its place, at one instant."""
        self.require(source.folder, target.folder)
        self.files.exchange(source.fd, name, target.fd, empty)

    def rename_all(
        self,
        source: OpenFolder,
        target: OpenFolder,
        names: Sequence[str],
        new_names: Sequence[str] | None = None,
    ) -> list[int]:
        """Move several files, each under its own name or a new one, with the GIL released once.
        Returns for each 0, or the errno that kept it."""
        calls = self.rename_calls(source, target, names, new_names or names)
        return [code for _, code in run(self.files, [(call,) for call in calls])]

    def rename_calls(
        self,
        source: OpenFolder,
        target: OpenFolder,
        names: Sequence[str],
        new_names: Sequence[str],
    ) -> list[Call]:
        """Return the calls that move several files, for `mq.disk.calls`."""
        self.require(source.folder, target.folder)
        source_fd, target_fd = source.fd, target.fd
        return [
            (RENAME, source_fd, name, target_fd, new_name)
            for name, new_name in zip(names, new_names, strict=True)
        ]

    def unlink(self, source: OpenFolder, name: str) -> None:
        self.require(source.folder, None)
        self.files.unlink(source.fd, name)
