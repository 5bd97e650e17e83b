"""A mover of its own process, beside the servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mq.spool.files import Files
from mq.spool.root import open_root
from tests.conftest import Process


@pytest.fixture
def start_mover(root: Path, processes: list[Process]) -> Callable[..., Process]:
    """`start_mover("--delay=1")` starts `mq-mover` on a root, which is made; it ends with the
    test."""
    open_root(root, 0o700, Files())[0].close()

    def start(*flags: str) -> Process:
        folders = (f"--source={root / 'delay'}", f"--destination={root / 'queues'}")
        log = root.with_name(f"mover-{len(processes)}.log")
        processes.append(Process("mq_mover", *folders, *flags, log=log))
        return processes[-1]

    return start
