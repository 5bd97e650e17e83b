"""The two folders of a mover, and which it does not take."""

from __future__ import annotations

import os
from pathlib import Path

from mq.config import MoverConfig
from mq.errors import ExitCode, StartRefused
from mq.lifecycle import MoveRefused
from mq.spool.moves import Moves, OpenFolder
from mq.spool.root import folder_of_root, refuse_foreign_owner


def refuse_no_move(config: MoverConfig, source: OpenFolder, destination: OpenFolder) -> None:
    """Refuse folders between which no move is one rename, and one folder for both. Raises
    StartRefused."""
    here, there = os.fstat(source.fd), os.fstat(destination.fd)
    if os.path.samestat(here, there):
        raise StartRefused(
            ExitCode.FOLDERS,
            f"{config.source} and {config.destination} are the same folder; give two, as "
            "ROOT/delay and ROOT/queues",
        )
    if here.st_dev != there.st_dev:
        raise StartRefused(
            ExitCode.FOLDERS,
            f"{config.source} and {config.destination} are on different file systems; a move "
            "between them is not atomic",
        )


def refuse_move_of_others(
    config: MoverConfig, moves: Moves, source: OpenFolder, destination: OpenFolder
) -> None:
    """Refuse folders between which the table gives the mover nothing to do. Raises StartRefused."""
    try:
        moves.require(source.folder, destination.folder)
    except MoveRefused as error:
        raise StartRefused(
            ExitCode.FOLDERS,
            f"{config.source} and {config.destination}: {error}; give ROOT/delay and ROOT/queues",
        ) from error


def refuse_other_root(config: MoverConfig) -> None:
    """Refuse to take the messages of a root out of it. What lies outside may be moved in. Refuse
    the root of another user too, who could not enter a folder for dead letters that this process
    makes. Raises StartRefused."""
    source, destination = config.source, config.destination
    if folder_of_root(source) is None:
        return
    root = os.path.dirname(os.path.realpath(source))
    if os.path.dirname(os.path.realpath(destination)) != root:
        raise StartRefused(
            ExitCode.FOLDERS,
            f"{source} and {destination} are not of one root: messages would leave {root}; "
            f"give {root}/delay and {root}/queues",
        )
    refuse_foreign_owner(Path(root), Path(root))
