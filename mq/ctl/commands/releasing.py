"""`mqctl release --group`: give back the claims of a Spark query."""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mq.command.pace import messages_text
from mq.errors import ClaimError, CommandFailed, ExitCode, StoreUnavailable
from mq.lifecycle import Actor, Folder
from mq.names import parse_queue_name
from mq.spool.network_files import files_for
from mq.spool.root import visit_root
from mq.spool.sets import members
from mq.spool.spark.claims import CLAIMS, Group
from mq.spool.spool import Spool


class Released(NamedTuple):
    """How many messages are ready again, how many stay because their queues have other messages of
    their ids, and the sealed batches that remain and may not be done."""

    group: str
    given_back: int
    kept: int
    sealed: list[int]

    def __str__(self) -> str:
        said = f"gave back {messages_text(self.given_back)} of group {self.group}"
        if self.kept:
            said += (
                f"; kept {messages_text(self.kept)}, because the queue has another message of that "
                "id: remove or move that one, and release the group again"
            )
        if not self.sealed:
            return said
        batches = ", ".join(map(str, self.sealed))
        return (
            f"{said}; sealed and kept: batch {batches}. The query may have written these already: "
            "start it again, or give them back with --force"
        )


def release_group(root: Path, name: str, force: bool) -> Released:
    """Give back the claims of a group. Raises InvalidName, CommandFailed, StoreUnavailable."""
    parse_queue_name(name)
    spool = visit_root(root, files_for(root), Actor.SPARK)
    try:
        return _release(spool, name, force)
    except OSError as error:
        raise StoreUnavailable(f"group {name}: {error.strerror}: {error.filename}") from error
    finally:
        spool.close()


def _release(spool: Spool, name: str, force: bool) -> Released:
    group = Group(spool, name, str(uuid.uuid4()))
    if not (spool.root / Folder.SPARK).exists() or not group.exists():
        raise CommandFailed(ExitCode.NOT_FOUND, f"there is no group {name} in {spool.root}")
    given_back = group.fence()
    if force:
        given_back += group.give_back_sealed(_unfinished(group)) + group.give_back_unsynced()
    spool.files.sync_file_system(spool.fd(Folder.SPARK))
    sealed = sorted(_unfinished(group) + group.unsynced())
    return Released(name, given_back, _count_kept(spool, group), sealed)


def _count_kept(spool: Spool, group: Group) -> int:
    paths = [f"{CLAIMS}/{group.name}/{claim}" for claim in group.open_claims()]
    with suppress(FileNotFoundError):  # Another driver gives it back just now.
        return sum(len(members(spool, Folder.SPARK, path)) for path in paths)
    return 0


def _unfinished(group: Group) -> list[int]:
    """Return the sealed batches that are not known to be done: all of them if the group is damaged.
    A driver that died may have left one that is done."""
    done = 0
    with suppress(ClaimError):
        done = group.floor()
    return [batch for batch in group.sealed() if batch > done]
