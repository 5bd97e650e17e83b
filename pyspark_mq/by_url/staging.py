"""The staging of a job: a folder with a root for each direction.

    STAGING/in/     what was fetched, until Spark has it
    STAGING/out/    what Spark has written, until the servers have it
    STAGING/*/servers   the addresses, one a line, that what lies there comes from or goes to

Driver and executors use it under the same path; the hosts of the servers do not need it. Each root
is one of MQ, on which no server runs: `mqctl --root STAGING/out ls` shows what waits there.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from mq.config import ServerConfig
from mq.disk.files import Files
from mq.errors import MQError
from mq.lifecycle import Actor, Folder
from mq.names import QueueName
from mq.spool.moves import OpenFolder
from mq.spool.network_files import files_for
from mq.spool.root import open_root, visit_root
from mq.spool.root_format import write_once
from mq.spool.spool import Spool

_SERVERS = "servers"
_MAX_BYTES = 64 * 1024


class StagingRefused(MQError):
    """The staging cannot be used for this job; the text says why."""


def prepare_staging(root: Path, urls: tuple[str, ...]) -> None:
    """Make the root of one direction where it is missing. Raises StartRefused, StagingRefused."""
    files = files_for(root)
    spool, system = open_root(root, ServerConfig().mode, files)
    try:
        if not system.has_seals:
            raise StagingRefused(
                f"option staging: {root} is on {system.kind}, which has no extended attributes; "
                "choose a folder on ext4, xfs or the like"
            )
        _belong_to(spool, urls)
    finally:
        spool.close()


def _belong_to(spool: Spool, urls: tuple[str, ...]) -> None:
    """Tie the staging to its servers: messages for one server must not go to another one whose
    queues have the same names."""
    wanted = "".join(f"{url}\n" for url in sorted(urls)).encode()
    if not write_once(spool.root, spool.files, _SERVERS, wanted):
        _require_same(spool.root / _SERVERS, wanted, urls)


def _require_same(path: Path, wanted: bytes, urls: tuple[str, ...]) -> None:
    found = path.read_bytes()[:_MAX_BYTES]
    if found != wanted:
        there = ", ".join(found.decode("utf-8", "replace").split())
        raise StagingRefused(
            f"option staging: {path.parent} belongs to the servers {there}, and option url names "
            f"{', '.join(urls)}; give each its own staging, or, if the same servers have moved, "
            f"remove {path}"
        )


def open_staging(root: Path, files: Files | None = None) -> Spool:
    """Open what `prepare_staging` made, for messages that go to the servers or come from them."""
    return visit_root(root, files or files_for(root), Actor.STAGING)


def make_staged_queue(spool: Spool, queue: QueueName) -> None:
    spool.make_folders(Folder.QUEUES, queue)


def reap_staged(spool: Spool) -> None:
    """Unlink messages that are done. No reaper works here, and removed messages are not asked
    for."""
    for name in spool.names(Folder.REMOVE):
        _unlink_tree(spool, spool.opened(Folder.REMOVE), name)


def _unlink_tree(spool: Spool, folder: OpenFolder, name: str) -> None:
    """Unlink a folder and all in it. It does not matter if another process takes something away
    meanwhile."""
    files = spool.files
    try:
        try:
            spool.moves.unlink(folder, name)
            return
        except IsADirectoryError:
            fd = files.open_folder(folder.fd, name)
        try:
            for each in os.listdir(fd):
                _unlink_tree(spool, OpenFolder(folder.folder, fd), each)
        finally:
            files.close(fd)
        files.remove_folder(folder.fd, name)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
            raise
