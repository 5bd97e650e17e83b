"""Batches that are done: their messages go to `remove`, or to the archive.

    remove/GROUP:.N/PART/QUEUE:ID
    spark/archive/GROUP/N/PART/QUEUE:ID
    spark/claims/GROUP/N.unsynced/PART/QUEUE:ID   the sync before it was to go has failed

What a sink has written is on stable media before the messages go, if it is on the file system of
the root. When a sync fails, the kernel takes what it could not write for clean, and the next sync
succeeds without it. So such a batch stays until a person has looked at the sink.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from mq.errors import ClaimError
from mq.lifecycle import Folder
from mq.spool.removed_folders import leave_to_reaper
from mq.spool.spark.marker_files import parse_number
from mq.spool.spool import Spool

ARCHIVE = "archive"
_UNSYNCED = ".unsynced"


def name_in_remove(group: str, batch: int) -> str:
    """Return where a batch goes when it is done. It is never a queue's folder, because those end
    with a UUID."""
    return f"{group}:.{batch}"


def unsynced_name(batch: int) -> str:
    """Return the name in the group's folder of a batch that stays."""
    return f"{batch}{_UNSYNCED}"


def unsynced_in(names: Iterable[str]) -> list[int]:
    """Return the numbers of the batches that stay, in order, of the names in a group's folder."""
    batches = (name.removesuffix(_UNSYNCED) for name in names if name.endswith(_UNSYNCED))
    return sorted(number for each in batches if (number := parse_number(each)) is not None)


def unsynced_error(spool: Spool, path: str, batch: int) -> ClaimError:
    """Return the error for a batch that stays, with the ways out. `path` is the group's folder."""
    group = path.rpartition("/")[2]
    kept = f"{spool.root}/{Folder.SPARK}/{path}/{unsynced_name(batch)}"
    return ClaimError(
        f"group {group}: a sync failed when batch {batch} was done, so what the sink has written "
        f"of it may be lost. Its messages are kept in {kept}. Look at the sink. If it has them "
        f"all, rename that folder to {batch}; if not, take away what it has of them, and run "
        f"`mqctl --root {spool.root} release --group {group} --force`, which gives them back to "
        "their queues. Then start again"
    )


def let_go(spool: Spool, path: str, batches: list[int], archives: bool) -> None:
    """Sync what has been written, and then let the messages of these batches go, each batch in one
    rename. `path` is the group's folder below `spark`. If the sync fails, all of them stay, and
    this raises ClaimError."""
    try:
        # A driver that died here may have changed the floor without a sync.
        spool.files.sync_file_system(spool.fd(Folder.SPARK))
    except OSError as error:
        for batch in batches:
            kept = f"{path}/{unsynced_name(batch)}"
            with suppress(FileNotFoundError):  # Another driver has let it go.
                spool.rename_within(Folder.SPARK, f"{path}/{batch}", kept)
        raise unsynced_error(spool, path, batches[0]) from error
    for batch in batches:
        put_away(spool, path, batch, archives)


def put_away(spool: Spool, path: str, batch: int, archives: bool) -> None:
    """Move the folder of a batch to `remove` or to the archive."""
    source, group = f"{path}/{batch}", path.rpartition("/")[2]
    if not archives:
        try:
            spool.move(Folder.SPARK, source, Folder.REMOVE, name_in_remove(group, batch))
        except FileExistsError:
            # It belongs to an earlier group of that name, which counted from 1 too.
            leave_to_reaper(spool, Folder.SPARK, source, group)
        return
    spool.make_folders(Folder.SPARK, ARCHIVE, f"{ARCHIVE}/{group}")
    # An earlier group of that name may have kept a batch of that number.
    spool.move_aside(Folder.SPARK, source, Folder.SPARK, f"{ARCHIVE}/{group}/{batch}")
