"""A workspace on a new root, and what the root has in it then."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mq.config import ServerConfig
from mq.disk.files import Files
from mq.names import QueueName
from mq.spool.root import open_root
from mq.store.shared_state import Workspace


@contextmanager
def workspace_on(
    root: Path, queue: QueueName, clock_ns: Callable[[], int], files: Files | None = None
) -> Iterator[Workspace]:
    """Open a workspace whose root has one queue, which it holds."""
    files = files or Files()
    spool = open_root(root, 0o700, files)[0]
    (root / "queues" / queue).mkdir()
    work = Workspace(
        spool, ServerConfig(root=root), lambda: None, granularity_ns=1000, clock_ns=clock_ns
    )
    try:
        work.hold_queue(queue)
        yield work
    finally:
        work.ready.close()
        work.spool.close()


def contents_of(root: Path) -> dict[str, Any]:
    """Return the bytes and attributes of each file below the folders of a root. Probes are left
    out."""
    found = {}
    for path in root.rglob("*"):
        if path.is_file() and path.parent != root and path.name[0] != ".":
            attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
            found[str(path.relative_to(root))] = path.read_bytes(), attributes
    return found
