"""The probe: a file that goes the way of a publish and leaves nothing."""

from __future__ import annotations

import os

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation
from mq.lifecycle import Folder
from mq.spool.root import PROBE_PREFIX
from mq.store.shared_state import Workspace


def probe(work: Workspace) -> Operation[None]:
    """Write, link, sync and unlink a hidden file in `new`. A crash leaves it to the sweep, which
    discards it. Raises StoreUnavailable."""
    files, new = work.files, work.spool.fd(Folder.NEW)
    name = f"{PROBE_PREFIX}{os.getpid()}-{os.urandom(6).hex()}"
    fd = files.open_unnamed(new, work.spool.file_mode)
    try:
        files.write(fd, name.encode())
        files.lock(fd)
        work.spool.link(fd, Folder.NEW, name)
        try:
            yield Unsynced((fd,), (), implied=(Folder.NEW,))
        finally:
            work.spool.unlink(Folder.NEW, name)
    finally:
        files.close(fd)
