"""A mover that comes by once, later."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

from mq.config import MoverConfig
from mq.spool.network_files import NetworkFiles
from mq_mover.mover import Mover
from tests.support.messages import SECOND_NS


def redeliver(root: Path, seconds_later: float = 10_000) -> None:
    """Move what is due once so much time has passed, on a file system of the network."""
    later = time.time_ns() + int(seconds_later * SECOND_NS)
    files = NetworkFiles(root)
    with (
        patch("mq_mover.mover.time.time_ns", lambda: later),
        closing(Mover(MoverConfig(root / "delay", root / "queues"), files)) as mover,
    ):
        mover.scan()
        mover.move_due()
