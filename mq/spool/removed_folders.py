"""The folders in `remove`, by their names.

    OWNER:.UUID        the reaper may have it: a deleted queue, what was purged, a set given up
    GROUP:.N           the reaper may have it: a batch that Spark is done with
    QUEUE:.deleting    a deletion is under way (`mq.spool.queue.queues`)
    QUEUE:.purged      a part for each purge (`mq.spool.queue.purged`)

No message has such a name, because an id does not begin with a dot.
"""

from __future__ import annotations

import uuid

from mq.disk.files import HIDDEN
from mq.lifecycle import Folder
from mq.spool.spool import Spool


def leave_to_reaper(spool: Spool, folder: Folder, name: str, owner: str) -> bool:
    """Leave a folder with everything in it to the reaper, by one rename to `remove/OWNER:.UUID`.
    `owner` is a queue's name or begins like one. Returns False if the folder is gone."""
    return spool.move(folder, name, Folder.REMOVE, f"{owner}:{HIDDEN}{uuid.uuid4()}")


def is_removed_folder(name: str) -> bool:
    """Return whether a folder in `remove` has the name of one that MQ has put there."""
    return f":{HIDDEN}" in name
