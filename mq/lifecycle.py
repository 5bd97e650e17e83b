"""Where a message can be, and who may move it on. Nothing else decides that.

    root/                            POST         server          GET        mover, when due
      new/      queue001:ID          -----> new --------> queues -----> delay -------------> queues
      queues/                                |              |             |
        queue001/  ID                        '--------------+-- DELETE ---'
      delay/    queue001:ID                                 v
      remove/   queue001:ID                               remove -------> unlinked
                                                                 reaper

A message is written once and unlinked once; everything in between is a rename. `docs/lifecycle.md`
carries this table and what a crash leaves at each step; a test compares the two.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import NamedTuple


class State(StrEnum):
    """The state of a message, as people and programs see it."""

    READY = "ready"
    LEASED = "leased"
    DELAYED = "delayed"
    REMOVED = "removed"


SHOWN_STATES = (State.READY, State.LEASED, State.DELAYED)
"""The states in which a queue counts and shows its messages."""

HIDDEN_STATES = SHOWN_STATES[1:]
"""The states of messages in `delay`."""


class PurgeScope(Enum):
    """Which messages of a queue are purged. `READY` are those in the queue's folder."""

    ALL = "all"
    READY = "ready"


class Folder(StrEnum):
    """The folders of a root. A queue is a folder inside `queues`."""

    NEW = "new"
    QUEUES = "queues"
    DELAY = "delay"
    REMOVE = "remove"
    CORRUPT = "corrupt"
    SPARK = "spark"


class Actor(StrEnum):
    """A process that works on a root. `mqctl --root` acts as a server does, `mqctl fsck` as fsck,
    `mqctl release --group` as Spark. `STAGING` brings messages between servers and the staging of a
    Spark job by url, which is a root without a server."""

    SERVER = "server"
    MOVER = "mover"
    REAPER = "reaper"
    FSCK = "fsck"
    SPARK = "spark"
    STAGING = "staging"


class Move(NamedTuple):
    """One arrow of the map. `source` is None where the message begins, `target` where it ends. Both
    are the same where the message gets another name in its folder."""

    word: str
    source: Folder | None
    target: Folder | None
    actors: frozenset[Actor]


class MoveRefused(Exception):
    """A process tried a move that the table does not give to it: the program has a defect, or the
    folder is not meant for that process. Nothing was moved."""

    def __init__(self, actor: Actor, source: Folder | None, target: Folder | None) -> None:
        super().__init__(
            f"no move from {source or 'nowhere'} to {target or 'nowhere'} for {actor}: "
            "see the table in docs/lifecycle.md"
        )


FIXED_FOLDERS = (Folder.NEW, Folder.QUEUES, Folder.DELAY, Folder.REMOVE)
"""These are made at the first start and held open; the others are made when they are first
needed."""

_SERVER = frozenset({Actor.SERVER})
_MOVER = frozenset({Actor.MOVER})
_REAPER = frozenset({Actor.REAPER})
_FSCK = frozenset({Actor.FSCK})
_SPARK = frozenset({Actor.SPARK})
_STAGING = frozenset({Actor.STAGING})

MOVES = (
    Move("publish", None, Folder.NEW, _SERVER),
    Move("seal, write again", Folder.NEW, Folder.NEW, _SERVER | _FSCK),
    Move("deliver", Folder.NEW, Folder.QUEUES, _SERVER | _MOVER | _FSCK),
    Move("deliver", Folder.NEW, Folder.DELAY, _SERVER | _FSCK),
    Move("receive", Folder.QUEUES, Folder.DELAY, _SERVER),
    Move("take", Folder.DELAY, Folder.NEW, _SERVER),
    Move("fetch", None, Folder.DELAY, _STAGING),
    Move("redeliver, move, take over", Folder.DELAY, Folder.QUEUES, _SERVER | _MOVER | _STAGING),
    Move("move", Folder.QUEUES, Folder.QUEUES, _SERVER),
    Move("remove", Folder.NEW, Folder.REMOVE, _SERVER | _FSCK),
    Move("remove", Folder.QUEUES, Folder.REMOVE, _SERVER | _FSCK | _STAGING),
    Move("remove", Folder.DELAY, Folder.REMOVE, _SERVER | _FSCK | _STAGING),
    Move("put away", Folder.REMOVE, Folder.REMOVE, _SERVER | _FSCK),
    Move("reap", Folder.REMOVE, None, _REAPER | _STAGING),
    Move("drop a name", Folder.NEW, None, _SERVER | _FSCK),
    Move("set aside", Folder.NEW, Folder.CORRUPT, _SERVER | _FSCK),
    Move("set aside", Folder.QUEUES, Folder.CORRUPT, _SERVER | _FSCK | _SPARK | _STAGING),
    Move("set aside", Folder.DELAY, Folder.CORRUPT, _SERVER | _FSCK | _STAGING),
    Move("set aside", Folder.REMOVE, Folder.CORRUPT, _FSCK),
    Move("claim", Folder.QUEUES, Folder.SPARK, _SPARK),
    Move("stage", None, Folder.SPARK, _SPARK),
    Move("seal", Folder.SPARK, Folder.SPARK, _SPARK),
    Move("deliver, give back", Folder.SPARK, Folder.QUEUES, _SERVER | _SPARK),
    Move("deliver", Folder.SPARK, Folder.DELAY, _SERVER | _SPARK),
    Move("remove", Folder.SPARK, Folder.REMOVE, _SERVER | _SPARK),
    Move("drop a name", Folder.SPARK, None, _SERVER | _SPARK),
    Move("set aside", Folder.SPARK, Folder.CORRUPT, _SERVER | _SPARK),
)
"""Each pair of folders has one row; each actor of a row makes that move somewhere."""


def allowed_moves(actor: Actor) -> frozenset[tuple[Folder | None, Folder | None]]:
    """Return the moves of `actor`, as (source, target)."""
    return frozenset((move.source, move.target) for move in MOVES if actor in move.actors)
