"""Where a message can be, and who may move it on. Nothing else decides that.

    root/                            POST         server          GET        mover, when due
      new/      queue001:ID          -----> new --------> queues -----> delay -------------> queues
      queues/                                |              |             |
        queue001/  ID                        '--------------+-- DELETE ---'
      delay/    queue001:ID                                 v
      remove/   queue001:ID                               remove -------> unlinked
                                                                 reaper

A message is written once and unlinked once; everything between is a rename. `docs/lifecycle.md`
carries this table and what a crash leaves at each step; a test compares the two.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Folder(StrEnum):
    """The folders of a root. A queue is a folder inside `queues`."""

    NEW = "new"
    QUEUES = "queues"
    DELAY = "delay"
    REMOVE = "remove"
    CORRUPT = "corrupt"
    SPARK = "spark"


class Actor(StrEnum):
    """Who works on a root. `mqctl --root` acts as a server does, `mqctl fsck --repair` too, and it
    has one arrow of its own."""

    SERVER = "server"
    MOVER = "mover"
    REAPER = "reaper"
    FSCK = "fsck"
    SPARK = "spark"


class Move(NamedTuple):
    """One arrow of the map. `source` is None where the message begins, `target` where it ends."""

    word: str
    source: Folder | None
    target: Folder | None
    actors: frozenset[Actor]


FIXED_FOLDERS = (Folder.NEW, Folder.QUEUES, Folder.DELAY, Folder.REMOVE)
"""Made at first start and held open; the others are made when first needed."""

_SERVER = frozenset({Actor.SERVER})
_MOVER = frozenset({Actor.MOVER})
_BOTH = _SERVER | _MOVER
_SPARK = frozenset({Actor.SPARK})

MOVES = (
    Move("publish", None, Folder.NEW, _SERVER),
    Move("deliver", Folder.NEW, Folder.QUEUES, _BOTH),
    Move("deliver", Folder.NEW, Folder.DELAY, _BOTH),
    Move("receive", Folder.QUEUES, Folder.DELAY, _SERVER),
    Move("redeliver", Folder.DELAY, Folder.QUEUES, _BOTH),
    Move("redrive", Folder.QUEUES, Folder.QUEUES, _SERVER),
    Move("remove", Folder.NEW, Folder.REMOVE, _SERVER),
    Move("remove", Folder.QUEUES, Folder.REMOVE, _SERVER),
    Move("remove", Folder.DELAY, Folder.REMOVE, _SERVER),
    Move("reap", Folder.REMOVE, None, frozenset({Actor.REAPER})),
    Move("set aside", Folder.NEW, Folder.CORRUPT, _BOTH),
    Move("set aside", Folder.QUEUES, Folder.CORRUPT, _SERVER),
    Move("set aside", Folder.DELAY, Folder.CORRUPT, _BOTH),
    Move("set aside", Folder.REMOVE, Folder.CORRUPT, frozenset({Actor.FSCK})),
    Move("claim", Folder.QUEUES, Folder.SPARK, _SPARK),
    Move("give back", Folder.SPARK, Folder.QUEUES, _SPARK),
    Move("stage", None, Folder.SPARK, _SPARK),
    Move("deliver", Folder.SPARK, Folder.QUEUES, _SERVER | _SPARK),
    Move("deliver", Folder.SPARK, Folder.DELAY, _SERVER | _SPARK),
    Move("remove", Folder.SPARK, Folder.REMOVE, _SERVER | _SPARK),
    Move("set aside", Folder.SPARK, Folder.CORRUPT, _SERVER | _SPARK),
)


def allowed_moves(actor: Actor) -> frozenset[tuple[Folder, Folder]]:
    """The renames `actor` may do, as (source, target)."""
    return frozenset(
        (move.source, move.target)
        for move in MOVES
        if actor in move.actors and move.source is not None and move.target is not None
    )
