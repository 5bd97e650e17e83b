"""What a folder must be before a server runs on it: made, ours, on one file system, of a known
format, writable. Refused otherwise with one line that names the folder and the way out.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from mq.errors import ExitCode, StartRefused
from mq.lifecycle import FIXED_FOLDERS, Actor, Folder
from mq.spool.files import HIDDEN, Files
from mq.spool.folders import Spool
from mq.spool.message import SEAL_ATTRIBUTE

FORMAT_FILE = "format"
FORMAT = "mq 1"
"""What `root/format` says; a version that this one cannot read says another number."""

_IN_MEMORY = {"tmpfs", "ramfs"}
_ORDERED = {"ext4", "ext3", "xfs", "btrfs"}
_NETWORK = {"9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "lustre", "nfs", "nfs4",
            "ocfs2", "smb3", "virtiofs"}  # fmt: skip
_OCTAL = re.compile(r"\\([0-7]{3})")
"""How mountinfo writes a space, a tab, a line's end and a backslash."""

_GRANULARITIES_NS = (1, 100, 1_000, 1_000_000, 10_000_000, 1_000_000_000, 2_000_000_000)


@dataclass(frozen=True, slots=True)
class FileSystem:
    """What the root's file system was found to do."""

    kind: str
    has_seals: bool
    stamp_granularity_ns: int
    is_in_memory: bool
    is_network: bool
    warnings: tuple[str, ...]


def open_root(root: Path, mode: int, files: Files) -> tuple[Spool, FileSystem]:
    """Make the tree where it is missing, check it, and open it for a server.

    Several servers may do so at once. Raises StartRefused.
    """
    root = Path(os.path.abspath(root))
    with _refusing(root):
        root = _resolve(root)
        _make_tree(root, mode, files)
        if not (root / FORMAT_FILE).exists():
            write_format(root, files)
        spool = _open_checked(root, files)
        try:
            file_system = measure_file_system(spool)
            _send_probe(spool)
        except BaseException:
            spool.close()
            raise
    return spool, file_system


def visit_root(root: Path, files: Files, *others: Actor) -> Spool:
    """Open a root that is there, beside its servers. Nothing is made or written; a missing format
    file is borne. Raises StartRefused."""
    root = Path(os.path.abspath(root))
    with _refusing(root):
        root = _resolve(root)
        for folder in (root, *(root / name for name in FIXED_FOLDERS)):
            if not folder.is_dir():
                raise StartRefused(
                    ExitCode.ROOT,
                    f"root {root}: there is no folder {folder}; name a root of MQ, or make one: mq "
                    "and `mqctl create` do",
                )
            _refuse_foreign_owner(root, folder)
        return _open_checked(root, files, *others)


@contextmanager
def _refusing(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StartRefused(
            ExitCode.ROOT,
            f"root {root}: {error.strerror}: {error.filename or root}; "
            "the server must be able to make, read and write its folders",
        ) from error


def _open_checked(root: Path, files: Files, *others: Actor) -> Spool:
    _refuse_unknown_format(root)
    _refuse_mixed_file_systems(root)
    files.owners.add(os.stat(root).st_uid)
    return Spool(root, files, *others)


def _resolve(root: Path) -> Path:
    """Where the root really is. No link leads there that somebody else may have planted."""
    _refuse_planted_links(root)
    return Path(os.path.realpath(root))


def _refuse_planted_links(root: Path) -> None:
    """A link in a folder that everybody may write to can be anybody's; root's own are trusted."""
    seen = 0
    parts = list(root.parts[1:])
    here = "/"
    while parts and seen < 40:
        parent, here = here, os.path.join(here, parts.pop(0))
        try:
            status = os.lstat(here)
            if not stat.S_ISLNK(status.st_mode):
                continue
            if os.stat(parent).st_mode & stat.S_IWOTH and status.st_uid != 0:
                raise StartRefused(
                    ExitCode.OWNER,
                    f"root {root}: {here} is a link in a folder that everybody may write to; "
                    "name the folder it leads to instead",
                )
            seen += 1
            target = os.path.abspath(os.path.join(parent, os.readlink(here)))
            here, parts = "/", [*Path(target).parts[1:], *parts]
        except FileNotFoundError:
            return


def _make_tree(root: Path, mode: int, files: Files) -> None:
    for folder in reversed([parent for parent in root.parents if not parent.exists()]):
        _make_folder(files, folder, 0o755)
    _make_folder(files, root, mode)
    _refuse_foreign_owner(root, root)
    for name in FIXED_FOLDERS:
        _make_folder(files, root / name, mode)
        _refuse_foreign_owner(root, root / name)


def _make_folder(files: Files, folder: Path, mode: int) -> None:
    try:
        files.make_folder(None, str(folder), mode)
    except FileExistsError:
        if not folder.is_dir():
            raise StartRefused(ExitCode.ROOT, f"{folder} is not a folder; move it away") from None


def _refuse_foreign_owner(root: Path, folder: Path) -> None:
    """Before anything inside is asked for, which would only say that permission is denied."""
    owner = os.stat(folder).st_uid
    if os.geteuid() not in (0, owner):
        raise StartRefused(
            ExitCode.OWNER,
            f"root {root}: {folder} belongs to user {owner}, this process is user "
            f"{os.geteuid()}; run it as that user or choose another root",
        )


def _refuse_unknown_format(root: Path) -> None:
    path = root / FORMAT_FILE
    try:
        found = path.read_text(errors="replace").strip()[:80]
    except FileNotFoundError:
        return
    if found != FORMAT:
        raise StartRefused(
            ExitCode.FORMAT,
            f"root {root}: {path} says {found!r}, this server knows {FORMAT!r}; "
            "use the version of MQ that wrote it",
        )


def write_format(root: Path, files: Files) -> None:
    """Write the format file whole or not at all if there is none; two servers may both try."""
    root_fd = files.open_folder(None, str(root))
    try:
        fd = files.open_unnamed(root_fd, 0o644)
        try:
            files.write(fd, f"{FORMAT}\n".encode())
            files.sync(fd)
            files.link(fd, root_fd, FORMAT_FILE)
        except FileExistsError:
            pass
        finally:
            files.close(fd)
        files.sync(root_fd)
    finally:
        files.close(root_fd)


def _refuse_mixed_file_systems(root: Path) -> None:
    devices: dict[int, list[str]] = {}
    for folder in FIXED_FOLDERS:
        devices.setdefault(os.stat(root / folder).st_dev, []).append(folder)
    if len(devices) > 1:
        groups = " and ".join("+".join(folders) for folders in devices.values())
        raise StartRefused(
            ExitCode.FOLDERS,
            f"root {root}: folders {groups} are on different file systems; a move between them "
            "is not atomic; keep all of them on one",
        )


def measure_file_system(spool: Spool) -> FileSystem:
    """Find out what the root's file system does, with a file that never has a name; the spool then
    knows whether it has seals."""
    files = spool.files
    kind = file_system_kind(spool.root)
    fd = files.open_unnamed(spool.fd(Folder.NEW), spool.file_mode)
    try:
        spool.has_seals = _can_seal(files, fd)
        granularity_ns = _stamp_granularity_ns(files, fd)
    finally:
        files.close(fd)
    warnings = []
    if not spool.has_seals:
        warnings.append(
            f"{kind} has no user extended attributes: no seals, receive counts or dead letters"
        )
    if kind in _IN_MEMORY:
        warnings.append(f"{kind} keeps nothing over a power cut: syncs are skipped")
    elif kind not in _ORDERED or not _has_journal(spool.root, kind):
        warnings.append(
            f"{kind} is not known to keep renames in order over a power cut "
            "(ext4 with a journal, xfs and btrfs are)"
        )
    in_memory = kind in _IN_MEMORY
    is_network = kind in _NETWORK or kind.startswith("fuse")
    return FileSystem(kind, spool.has_seals, granularity_ns, in_memory, is_network, tuple(warnings))


def _send_probe(spool: Spool) -> None:
    """Send an empty hidden file the whole way to `remove`, where the reaper takes it."""
    files = spool.files
    name = f"{HIDDEN}probe-{os.getpid()}-{os.urandom(6).hex()}"
    fd = files.open_unnamed(spool.fd(Folder.NEW), spool.file_mode)
    try:
        files.lock(fd)  # another server's sweep takes a hidden file for an upload
        files.link(fd, spool.fd(Folder.NEW), name)
        for source, target in pairwise(FIXED_FOLDERS):
            files.rename(spool.fd(source), name, spool.fd(target), name)
    finally:
        files.close(fd)


def _can_seal(files: Files, fd: int) -> bool:
    try:
        files.set_attribute(fd, SEAL_ATTRIBUTE, bytes(32))
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return False
    return True


def _stamp_granularity_ns(files: Files, fd: int) -> int:
    """The step in which the file system keeps times: it cuts off, so the loss tells."""
    second = 1_700_000_001
    odd = second * 1_000_000_000 + 987_654_321
    files.stamp(fd, odd)
    lost_ns = odd - os.fstat(fd).st_mtime_ns
    return next((g for g in _GRANULARITIES_NS if lost_ns < g), _GRANULARITIES_NS[-1])


def file_system_kind(path: Path) -> str:
    """The type of the file system that holds `path`, from /proc/self/mountinfo (proc(5))."""
    return _mount_of(path)[0]


def _has_journal(path: Path, kind: str) -> bool:
    """Whether an ext file system has a journal (sysfs-fs-ext4); the others always log."""
    if not kind.startswith("ext"):
        return True
    device = os.path.basename(os.path.realpath(_mount_of(path)[1]))
    try:
        return Path(f"/sys/fs/ext4/{device}/journal_task").read_text().strip() != "<none>"
    except OSError:
        return True


def _mount_of(path: Path) -> tuple[str, str]:
    """Type and source of the innermost mount above `path`; of two on one point the later."""
    real = os.path.realpath(path)
    found, longest = ("unknown file system", ""), -1
    with open("/proc/self/mountinfo", errors="surrogateescape") as mounts:
        for line in mounts:
            before, _, after = line.partition(" - ")
            point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), before.split(" ")[4])
            if longest <= len(point) and (real + "/").startswith(point.rstrip("/") + "/"):
                kind, source = after.split()[:2]
                found, longest = (kind, source), len(point)
    return found
