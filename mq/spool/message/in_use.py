"""Whether another process has the lock of a message, and so may be about to move it by its name.

Until it lets go, no other message may get that name: so a removed message whose lock is held is not
reaped, and keeps its id. A process that takes the lock of a message looks at its name after that:
once a message is removed and its lock was free, nobody moves it by the name that it had before.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from mq.disk.calls import CLOSE, LOCK, OPEN_MESSAGE, run
from mq.disk.files import Files
from mq.spool.disk_errors import FAULTS_OF_ONE_MESSAGE, NO_MESSAGE

NOT_LOCKED = FAULTS_OF_ONE_MESSAGE | NO_MESSAGE | {0, errno.ENODEV, errno.EOPNOTSUPP, errno.ENOSYS}
"""Outcomes of `try_locks` after which no process has the lock, as far as this one may know."""


def try_locks(files: Files, folder_fd: int, names: Sequence[str]) -> list[int]:
    """Take the lock of each file in turn, and let go of it. Returns for each 0, or the errno of
    what has failed: EWOULDBLOCK if another process has the lock."""
    chains = [((OPEN_MESSAGE, folder_fd, name), (LOCK, ~0), (CLOSE, ~0)) for name in names]
    return [code for _, code in run(files, chains)]
