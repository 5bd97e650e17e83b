"""The status of a file, as far as MQ needs it: a tuple with the field names of `os.stat_result`
that costs a fifth as much."""

from __future__ import annotations

import os
from typing import NamedTuple

from mq.config import SECOND_NS


class Status(NamedTuple):
    """Fields of stat(2). Times are in ns since 1970, within what a seal can hold."""

    st_mode: int
    st_ino: int
    st_dev: int
    st_nlink: int
    st_uid: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int


_LAST_NS = (1 << 64) - 1
_LAST_SECOND_NS = _LAST_NS // SECOND_NS * SECOND_NS

SAME_TICK_NS = 20_000_000
"""A file or folder that changes twice within this time may keep its mtime (kernels before 6.13)."""

_WHOLE_SECONDS_TICK_NS = 2 * SECOND_NS
"""The same where times are whole seconds, or every second one: ext4 with inodes of 128 bytes keeps
no more."""

AnyStatus = Status | os.stat_result

MODE = Status._fields.index("st_mode")
INODE = Status._fields.index("st_ino")
OWNER = Status._fields.index("st_uid")
SIZE = Status._fields.index("st_size")


def may_stay(time_ns: int, now_ns: int) -> bool:
    """Return whether this mtime or ctime may stay as it is though its file or folder changes now.
    One of a whole second may be that of a file system that keeps no others."""
    tick_ns = SAME_TICK_NS if time_ns % SECOND_NS else _WHOLE_SECONDS_TICK_NS
    return time_ns >= now_ns - tick_ns


def status(fd: int) -> Status:
    return fields(os.fstat(fd))


def fields(found: os.stat_result) -> Status:
    """Return what os.stat found, with times within the limits of a seal."""
    return Status(
        found.st_mode,
        found.st_ino,
        found.st_dev,
        found.st_nlink,
        found.st_uid,
        found.st_size,
        _within_64_bits(found.st_mtime_ns),
        _within_64_bits(found.st_ctime_ns),
    )


def _within_64_bits(time_ns: int) -> int:
    """Return 0 for a time before 1970, and the last time that 64 bits can hold for one after July
    2554."""
    if time_ns < _LAST_SECOND_NS:
        return max(time_ns, 0)
    return _LAST_NS
