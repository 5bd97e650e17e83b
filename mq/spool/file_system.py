"""Measure what the file system of a root does: attributes, the resolution of its times, and whether
it keeps changes in their order."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mq.config import SECOND_NS
from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.spool.disk_errors import NO_ROOM
from mq.spool.locks import require_locks
from mq.spool.message.seal import SEAL_ATTRIBUTE
from mq.spool.root_format import FORMAT_FILE
from mq.spool.spool import Spool

_IN_MEMORY = {"tmpfs", "ramfs"}
_ORDERED = {"ext4", "ext3", "xfs", "btrfs"}
_WITHOUT_BARRIERS = {"nobarrier", "barrier=0"}
_LOGS_OF_THEIR_OWN = {"btrfs"}
"""On these fsync(2) logs each file or folder separately."""
_NETWORK = {"9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "nfs",
            "nfs4", "ocfs2", "smb3", "virtiofs"}  # fmt: skip
_TEMPORARY = ("/tmp", "/var/tmp")
"""What a system may empty, except for other file systems mounted there: see tmpfiles.d(5)."""

_NO_FOLDER = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}

_AHEAD_NS = SECOND_NS
"""A file server whose clock is further ahead than this is warned of."""

_OCTAL = re.compile(r"\\([0-7]{3})")
"""How mountinfo writes a space, a tab, a newline and a backslash."""

_GRANULARITIES_NS = (1, 100, 1_000, 1_000_000, 10_000_000, 1_000_000_000, 2_000_000_000)


@dataclass(frozen=True, slots=True)
class FileSystem:
    """What the root's file system was found to do."""

    kind: str
    has_seals: bool
    stamp_granularity_ns: int
    is_in_memory: bool
    warnings: tuple[str, ...]


def measure_file_system(spool: Spool) -> FileSystem:
    """Find out what the root's file system does, with a file that never gets a name. Afterwards the
    spool knows whether there are seals, and what a sync of the log makes durable. Raises
    StartRefused if locks do not work, and OSError."""
    require_locks(spool)
    kind = file_system_kind(spool.root)
    try:
        spool.has_seals, granularity_ns = _try_file(spool)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        spool.has_seals, granularity_ns = _try_root(spool)
    is_ordered = keeps_order(spool.root, kind)
    spool.has_one_log = is_ordered and kind not in _LOGS_OF_THEIR_OWN
    spool.has_data_log = is_ordered and kind == "ext4"
    return FileSystem(
        kind,
        spool.has_seals,
        granularity_ns,
        is_in_memory=kind in _IN_MEMORY,
        warnings=tuple(_warnings_of(spool, kind, is_ordered)),
    )


def _warnings_of(spool: Spool, kind: str, is_ordered: bool) -> Iterator[str]:
    """Yield what an operator must know of a root on such a file system. Raises OSError."""
    if not spool.has_seals:
        yield f"{kind} has no user extended attributes: no seals, receive counts or dead letters"
    if kind in _IN_MEMORY:
        yield f"{kind} keeps nothing over a power cut: syncs are skipped"
    elif not is_ordered:
        who = f"this {kind} has no journal, and" if kind in _ORDERED else kind
        yield (
            f"{who} is not known to keep renames in order over a power cut "
            "(ext4 with a journal, xfs and btrfs are)"
        )
    for option in _WITHOUT_BARRIERS & file_system_options(spool.root):
        yield (
            f"this {kind} is mounted with {option}: unless the cache of its disk outlives a power "
            "cut, what was answered before it may be gone; mount it without that"
        )
    temporary = _temporary_folder_of(spool.root)
    if temporary is not None:
        yield (
            f"many systems empty {temporary} when they boot, or remove what is old there: give "
            "--root a folder elsewhere for messages that must last"
        )
    names = _names_of_format(spool.root)
    if names > 1:
        yield (
            f"the file format has {names} names, so there is a copy of this root by hard links: "
            "copy that again before a server opens it, because leases are written into the files"
        )
    if is_of_network(kind):
        yield from _warnings_of_network(spool, kind)


def _warnings_of_network(spool: Spool, kind: str) -> Iterator[str]:
    yield (
        f"one machine alone cannot tell whether locks on {kind} reach the others; before another "
        "one works on this root, try them (docs/storage.md, Locks between machines)"
    )
    now_ns = time.time_ns()
    ahead_ns = file_system_ns(spool.files, spool.fd(Folder.NEW), now_ns) - now_ns
    if ahead_ns > _AHEAD_NS:
        yield (
            f"the clock of this {kind} is {ahead_ns / SECOND_NS:.0f} seconds ahead of this "
            "machine's: messages are hidden for that long at least, whatever lease or delay is "
            "asked for; set both clocks, with NTP for example"
        )


def _temporary_folder_of(root: Path) -> str | None:
    """Return the folder for temporary files that the root, a real path, is in, or None."""
    device = os.stat(root).st_dev
    for folder in _TEMPORARY:
        real = Path(os.path.realpath(folder))
        if real in root.parents and os.stat(real).st_dev == device:
            return folder
    return None


def _names_of_format(root: Path) -> int:
    """Return how many names the file has; none if it is missing, which a visitor can do without."""
    try:
        return os.stat(root / FORMAT_FILE).st_nlink
    except FileNotFoundError:
        return 0


def _try_file(spool: Spool) -> tuple[bool, int]:
    """Return whether a file can have a seal, and the resolution of its times in ns."""
    files = spool.files
    fd = files.open_unnamed(spool.fd(Folder.NEW), spool.file_mode)
    try:
        return _can_seal(files, fd), stamp_granularity_ns(files, fd)
    finally:
        files.close(fd)


def _try_root(spool: Spool) -> tuple[bool, int]:
    """Return the same where no file can be made. It is tried on the folder of the root, which gets
    its times back. Nothing is written that takes room, because a full disk must not keep receivers
    and the reaper from starting: they are the ones that make room."""
    files = spool.files
    fd = files.open_folder(None, str(spool.root))
    try:
        mtime_ns = os.fstat(fd).st_mtime_ns
        granularity_ns = stamp_granularity_ns(files, fd)
        files.stamp(fd, mtime_ns)
        return _has_attributes(fd), granularity_ns
    finally:
        files.close(fd)


def _has_attributes(fd: int) -> bool:
    try:
        os.getxattr(fd, SEAL_ATTRIBUTE)
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.EOPNOTSUPP):
            raise
        return error.errno == errno.ENODATA
    return True


def _can_seal(files: Files, fd: int) -> bool:
    try:
        files.set_attribute(fd, SEAL_ATTRIBUTE, bytes(32))
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return False
    return True


def stamp_granularity_ns(files: Files, fd: int) -> int:
    """Return the resolution of the file system's times in ns. The file system truncates times, and
    what is lost tells the resolution."""
    second = 1_700_000_001
    odd = second * 1_000_000_000 + 987_654_321
    files.stamp(fd, odd)
    lost_ns = odd - os.fstat(fd).st_mtime_ns
    return next((g for g in _GRANULARITIES_NS if lost_ns < g), _GRANULARITIES_NS[-1])


def file_system_ns(files: Files, fd: int, now_ns: int) -> int:
    """Return the time, in ns since 1970, of the clock that gives files their times: that of a file
    server, or of this machine. `fd` is a folder whose mtime nobody needs: it becomes `now_ns`."""
    files.stamp(fd, now_ns)  # This needs no room on the disk, as a new file would.
    return os.fstat(fd).st_ctime_ns


def nearest_folder(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists. One that cannot be looked at,
    as on a file system that is gone, counts as there. Opening it says what is wrong."""
    while _leads_nowhere(path) and path != path.parent:
        path = path.parent
    return path


def _leads_nowhere(path: Path) -> bool:
    """Return whether there is no such folder. An automounter mounts a file system when a path leads
    into it, and not when that is only looked at."""
    try:
        os.stat(f"{path}/.")
    except OSError as error:
        return error.errno in _NO_FOLDER
    return False


def file_system_kind(path: Path) -> str:
    """Return the type of the file system that holds `path`."""
    return _kind_and_options(path)[0]


def file_system_options(path: Path) -> set[str]:
    """Return the options of the file system that holds `path`, as they are now. Raises OSError."""
    return _kind_and_options(path)[1]


def _kind_and_options(path: Path) -> tuple[str, set[str]]:
    """Return the type and the options of the file system that holds `path`, from
    /proc/self/mountinfo (proc(5)). Of two mounts on one point the later one counts."""
    real = os.path.realpath(path)
    found, longest = ["unknown file system", ""], -1
    with open("/proc/self/mountinfo", errors="surrogateescape", newline="\n") as mounts:
        for line in mounts:
            before, _, after = line.partition(" - ")
            point = before.split(" ")[4]
            if "\\" in point:
                point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), point)
            if longest <= len(point) and (real + "/").startswith(point.rstrip("/") + "/"):
                found, longest = after.split(), len(point)
    return found[0], set(found[-1].split(","))


def keeps_order(path: Path, kind: str) -> bool:
    """Whether a file system of that type, which holds `path`, is known to keep changes of names in
    their order over a power cut."""
    return kind in _ORDERED and _has_journal(path, kind)


def is_of_network(kind: str) -> bool:
    """Whether other machines may work on a file system of that type."""
    return kind in _NETWORK or kind.startswith("fuse")


def _has_journal(path: Path, kind: str) -> bool:
    """Return whether an ext file system has a journal (sysfs-fs-ext4). Other file systems always
    log."""
    if not kind.startswith("ext"):
        return True
    # The path of the disk that was mounted may be another one here, as in a container.
    number = os.stat(path).st_dev
    disk = os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    try:
        journal = Path(f"/sys/fs/ext4/{os.path.basename(disk)}/journal_task")
        return journal.read_text().strip() != "<none>"
    except OSError:
        return True
