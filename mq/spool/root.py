"""Open a root, which must be made, owned by this user, on one file system, of a known format, and
writable. A root that is not is refused with one line that names the folder and the way out."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import filterfalse, pairwise
from pathlib import Path

from mq.disk.files import HIDDEN, Files
from mq.errors import ExitCode, StartRefused
from mq.lifecycle import FIXED_FOLDERS, Actor, Folder
from mq.names import is_queue_name
from mq.spool.disk_errors import NO_ROOM
from mq.spool.file_system import FileSystem, measure_file_system
from mq.spool.root_format import (
    FORMAT_FILE,
    format_without_file,
    refuse_unknown_format,
    write_format,
)
from mq.spool.spool import Spool, sticky

PROBE_PREFIX = f"{HIDDEN}probe-"
"""How the name of a probe begins: a file that a server sends the way of a message."""

_HIDDEN_IN_NEW = re.compile(rf"{re.escape(PROBE_PREFIX)}.*|\.[0-9a-f-]{{16,36}}|\..*:.*")
"""The names of probes, uploads and batches."""


def open_root(root: Path, mode: int, files: Files) -> tuple[Spool, FileSystem]:
    """Make the tree where it is missing, check it, and open it for a server. Several servers may do
    so at once. Raises StartRefused."""
    root = Path(os.path.abspath(root))
    with _refusing(root):
        root = _resolve(root)
        _make_tree(root, mode, files)
        if not (root / FORMAT_FILE).exists():
            write_format(root, files, format_without_file(root))
        spool = _open_checked(root, files, Actor.SERVER)
        try:
            file_system = measure_file_system(spool)
            _send_probe(spool)
        except BaseException:
            spool.close()
            raise
    return spool, file_system


def visit_root(root: Path, files: Files, actor: Actor) -> Spool:
    """Open an existing root for `actor`, beside its servers. Nothing is made or written, and the
    format file may be missing. Raises StartRefused."""
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
            refuse_foreign_owner(root, folder)
        return _open_checked(root, files, actor)


def folder_of_root(path: Path) -> Folder | None:
    """Return which folder of a root an existing folder is, for a process that works on that
    alone, or None if it is not in a root.

    Raises StartRefused for a root itself, for what lies deeper in it, as the folder of a queue, and
    if this version does not know the root's format.
    """
    root, inside = os.path.realpath(path), list[str]()
    while not os.path.isfile(os.path.join(root, FORMAT_FILE)) or not _is_root_of(root, inside):
        above, name = os.path.split(root)
        if above == root:
            return None
        root, inside = above, [name, *inside]
    if len(inside) != 1:
        raise StartRefused(
            ExitCode.FOLDERS,
            f"{path} is not one of the folders of the root {root}: give {root}/delay and "
            f"{root}/queues to a mover, and {root}/remove to a reaper",
        )
    with _refusing(Path(root)):
        refuse_unknown_format(Path(root))
    return Folder(inside[0])


def open_without_root(files: Files, folder: Path) -> int:
    """Open a folder for a process that has it alone, and not its root. Raises StartRefused."""
    try:
        return files.open_folder(None, str(folder))
    except OSError as error:
        is_shut = isinstance(error, PermissionError)
        way_out = "run this as the user who owns it" if is_shut else "make it, or start mq first"
        raise StartRefused(
            ExitCode.ROOT, f"folder {folder}: {error.strerror}; {way_out}"
        ) from error


def root_id(spool: Spool) -> str:
    """Return what tells an open root from others, without a word about where it is: a hash of which
    folders it has on which file system. Every server on a root returns the same."""
    parts = [os.fstatvfs(spool.fd(FIXED_FOLDERS[0])).f_fsid]
    parts += [os.fstat(spool.fd(folder)).st_ino for folder in FIXED_FOLDERS]
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:16]


def _is_root_of(root: str, inside: list[str]) -> bool:
    """Return whether what has a file `format` is a root: that of the path `inside`."""
    if inside:
        return inside[0] in list(Folder)
    return all(os.path.isdir(os.path.join(root, folder)) for folder in FIXED_FOLDERS)


@contextmanager
def _refusing(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # A call by descriptor names the descriptor, or a name in an open folder.
        name = str(error.filename)
        path = name if name.startswith("/") else root
        raise StartRefused(
            ExitCode.ROOT,
            f"root {root}: {error.strerror}: {path}; "
            "the server must be able to make, read and write its folders",
        ) from error


def _open_checked(root: Path, files: Files, actor: Actor) -> Spool:
    refuse_unknown_format(root)
    _refuse_mixed_file_systems(root)
    _refuse_links(root)
    files.owners.add(os.stat(root).st_uid)
    return Spool(root, files, actor)


def _resolve(root: Path) -> Path:
    """Return the real path of the root. Refuses one behind a link that others may have planted."""
    _refuse_planted_links(root)
    return Path(os.path.realpath(root))


def _refuse_planted_links(root: Path) -> None:
    """Refuse a link in a folder that everyone may write to: anyone may have made it. Links of the
    user root are trusted."""
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


def _refuse_other_files(root: Path) -> None:
    """Refuse to make a root around files that a root has no place for, as a home folder may have
    them: a sweep takes what is hidden in `new` for an upload, and the reaper unlinks all that is in
    `remove`."""
    if (root / FORMAT_FILE).exists():
        return
    for folder, is_ours in ((Folder.REMOVE, is_of_a_removal), (Folder.NEW, _may_be_in_new)):
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            for name in filterfalse(is_ours, os.listdir(root / folder)):
                raise StartRefused(
                    ExitCode.FOLDERS,
                    f"root {root}: it is not a root yet, and its folder {folder} has {name!r} in "
                    "it, which would be unlinked; choose an empty folder",
                )


def _may_be_in_new(name: str) -> bool:
    """Return whether no sweep takes this for an upload, or it may be one, a probe or a batch."""
    return not name.startswith(HIDDEN) or _HIDDEN_IN_NEW.fullmatch(name) is not None


def is_of_a_removal(name: str) -> bool:
    """Return whether a name has the form of a message's or of a folder's in `remove`."""
    owner, colon, _ = name.partition(":")
    return (bool(colon) and is_queue_name(owner)) or name.startswith(PROBE_PREFIX)


def _make_tree(root: Path, mode: int, files: Files) -> None:
    for folder in reversed([parent for parent in root.parents if not parent.exists()]):
        _make_folder(files, folder, 0o755)
    _make_folder(files, root, mode)
    refuse_foreign_owner(root, root)
    _refuse_other_files(root)
    for name in FIXED_FOLDERS:
        _make_folder(files, root / name, mode)
        refuse_foreign_owner(root, root / name)
    for folder in (root, root / Folder.NEW, root / Folder.QUEUES):
        _keep_names_from_others(files, folder)


def _make_folder(files: Files, folder: Path, mode: int) -> None:
    try:
        files.make_folder(None, str(folder), mode)
    except FileExistsError:
        if not folder.is_dir():
            raise StartRefused(ExitCode.ROOT, f"{folder} is not a folder; move it away") from None


def _keep_names_from_others(files: Files, folder: Path) -> None:
    """Set the sticky bit where others may write, so that they cannot rename the folders inside."""
    mode = stat.S_IMODE(os.stat(folder).st_mode)
    if sticky(mode) != mode:
        files.set_mode(None, str(folder), sticky(mode))


def _refuse_links(root: Path) -> None:
    """Refuse a link in the place of a folder of the root: its target may change at any time."""
    for folder in (root / name for name in FIXED_FOLDERS):
        if folder.is_symlink():
            raise StartRefused(
                ExitCode.ROOT,
                f"root {root}: {folder} is a link; move the folder that it leads to into its place",
            )


def refuse_foreign_owner(root: Path, folder: Path) -> None:
    """Refuse a root of another user before anything in it is opened, which would only say that
    permission is denied. The user root is refused too: the owner of the folder could lead it
    anywhere."""
    owner = os.stat(folder).st_uid
    if os.geteuid() != owner:
        raise StartRefused(
            ExitCode.OWNER,
            f"root {root}: {folder} belongs to user {owner}, this process is user "
            f"{os.geteuid()}; run it as that user or choose another root",
        )


def _refuse_mixed_file_systems(root: Path) -> None:
    devices: dict[int, list[str]] = {}
    made = [each for each in Folder if stat.S_ISDIR(_mode_of(root / each))]
    for folder in dict.fromkeys((*FIXED_FOLDERS, *made)):
        devices.setdefault(os.stat(root / folder).st_dev, []).append(folder)
    if len(devices) > 1:
        groups = " and ".join("+".join(folders) for folders in devices.values())
        raise StartRefused(
            ExitCode.FOLDERS,
            f"root {root}: folders {groups} are on different file systems; a move between them "
            "is not atomic; keep all of them on one",
        )


def _mode_of(path: Path) -> int:
    """Return the mode of what is there, of a link its own; 0 if there is nothing."""
    try:
        return os.lstat(path).st_mode
    except FileNotFoundError:
        return 0


def _send_probe(spool: Spool) -> None:
    """Send an empty hidden file the whole way to `remove`, where the reaper takes it. On a full
    disk it does not get there: a server starts all the same, because its receivers make room. What
    is left of the file then, fsck finds."""
    files = spool.files
    # With a colon, as messages have one; what stands before that is not a queue's, as in a batch.
    name = f"{PROBE_PREFIX}{os.getpid()}+:{os.urandom(6).hex()}"
    try:
        fd = files.open_unnamed(spool.fd(Folder.NEW), spool.file_mode)
        try:
            # Another server's sweep takes a hidden file without a lock for an upload.
            files.lock(fd)
            spool.link(fd, Folder.NEW, name)
            for source, target in pairwise(FIXED_FOLDERS):
                spool.moves.rename(spool.opened(source), name, spool.opened(target), name)
        finally:
            files.close(fd)
    except OSError as error:
        if error.errno == errno.EINVAL:  # As on vfat.
            why = f"root {spool.root}: no name may have a colon on this file system; choose another"
            raise StartRefused(ExitCode.SYSTEM, why) from error
        if error.errno not in NO_ROOM:
            raise
