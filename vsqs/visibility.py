"""Visibility: how much longer a consumed message is hidden. Call these functions with the folder's
lock held."""

from __future__ import annotations

import os

from vsqs.folder import QueueFolder
from vsqs.names import Name
from vsqs.protocol import hide_until, inode_of


def seconds_to_expiry(folder: QueueFolder) -> float | None:
    """Return the seconds until the first consumed message is to be requeued, or None if there is
    none."""
    first = folder.index.first_to_expire()
    return None if first is None else (int(first.state) - folder.now()) / folder.units_per_second


def is_over(folder: QueueFolder, consumed: Name) -> bool:
    """Return whether any process may requeue the message by now."""
    return int(consumed.state) <= folder.now()


def hide_anew(folder: QueueFolder, consumed: Name, fd: int, units: int) -> Name | None:
    """Give a message, open as `fd`, an expiry this far from now, in the queue's unit. Returns its
    new name, or None if it was requeued or deleted meanwhile: another process may have it."""
    inode = os.fstat(fd).st_ino
    if inode_of(folder, consumed) != inode:
        return None
    try:
        hidden = hide_until(folder, consumed, folder.now() + units)
    except FileNotFoundError:
        return None
    return hidden if inode_of(folder, hidden) == inode else None
