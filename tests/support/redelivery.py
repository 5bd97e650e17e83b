"""A mover that comes by once, now or later."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

from mq.config import MoverConfig
from mq.disk.files import Files
from mq.spool.network_files import NetworkFiles
from mq_mover.mover import Mover
from tests.support.messages import SECOND_NS


def move_due(
    root: Path, files: Files | None = None, max_receives: int = 0, source: str = "delay"
) -> None:
    """One pass of a mover: what is due by now is moved."""
    config = MoverConfig(root / source, root / "queues", max_receives=max_receives)
    with closing(Mover(config, files or Files())) as mover:
        mover.scan()
        mover.move_due()


def redeliver(root: Path, seconds_later: float = 10_000, files: Files | None = None) -> None:
    """Move what is due once so much time has passed, on a file system of the network if `files` are
    not given."""
    later = time.time_ns() + int(seconds_later * SECOND_NS)
    with patch("mq_mover.mover.time.time_ns", lambda: later):
        move_due(root, files or NetworkFiles(root))
