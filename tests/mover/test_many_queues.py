"""Queues that come and go while the mover is at work."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

from mq.config import MoverConfig
from mq.disk.files import Files
from mq.spool.spool import Spool
from mq_mover.mover import Mover
from tests.support.descriptors import count_open
from tests.support.messages import names_in, seal_of, write_message


def test_nothing_is_remembered_of_a_queue_that_is_deleted(root: Path, spool: Spool) -> None:
    """Clients may make one for each of their answers."""
    with closing(Mover(MoverConfig(root / "delay", root / "queues"), Files())) as mover:
        before = count_open(root / "queues")
        for number in range(3):
            queue = root / "queues" / f"answers-{number}"
            queue.mkdir()
            leased = root / "delay" / f"{queue.name}:1"
            write_message(leased, seal=seal_of(b"body", count=1), due_in_seconds=-1)
            mover.scan()
            assert names_in(queue) == ["1"]
            assert list(mover._settings._known) == [queue.name]
            shutil.rmtree(queue)

        mover.scan()
        assert not mover._settings._known
        assert count_open(root / "queues") == before
