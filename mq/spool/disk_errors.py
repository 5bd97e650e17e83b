"""What an error of the disk says: whether it concerns one message, one queue, or all. The numbers
are those of errno(3)."""

from __future__ import annotations

import errno

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The disk or a quota has no block or inode left."""

NO_MESSAGE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
"""Errors of opening what is gone or not a regular file."""

FAULTS_OF_ONE_MESSAGE = frozenset(
    {
        errno.EACCES,  # It is a file that another user put there.
        errno.EPERM,
        errno.EEXIST,  # `delay` has another file of that name, and no move replaces a file.
        errno.EBUSY,  # A person has mounted something on it.
        errno.EBADMSG,  # The file system found its own metadata damaged.
        errno.EUCLEAN,
    }
)
"""Errors that concern one file alone. All others concern the disk."""

FAULTS_OF_ONE_QUEUE = frozenset(
    {errno.EACCES, errno.EPERM, errno.EIO, errno.EBADMSG, errno.EUCLEAN}
)
"""Errors of opening or listing the folder of a queue that keep no other queue from its messages: it
is another user's, or the file system cannot read it."""
