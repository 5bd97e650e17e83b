"""The mover ends when another folder has the place of its own; the messages of a queue whose folder
was moved away wait until it is back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from mq.config import MoverConfig
from mq.disk.files import Files
from mq.errors import CommandFailed, ExitCode
from mq.spool.spool import Spool
from mq_mover.mover import Mover
from tests.support.messages import names_in, write_message
from tests.support.processes import Process, start_mover, wait_until


@pytest.mark.parametrize("moved", ["delay", "queues"])
def test_mover_whose_folder_was_moved_away_ends(spool: Spool, orders: Path, moved: str) -> None:
    """Its supervisor starts it again, on the folders that are there by then."""
    root = spool.root
    leased = write_message(root / "delay" / "orders:1")
    with closing(Mover(MoverConfig(root / "delay", root / "queues"), Files())) as mover:
        away = (root / moved).rename(root / "elsewhere")
        with pytest.raises(CommandFailed, match="moved away") as failed:
            mover.run()
        assert failed.value.exit_code is ExitCode.ROOT

        away.rename(root / moved)

        assert leased.exists()
        mover.scan()
        assert names_in(orders) == ["1"]


def test_what_fell_due_while_its_queue_was_away_comes_once_it_is_back(
    spool: Spool, orders: Path, processes: list[Process]
) -> None:
    away = orders.rename(spool.root / "elsewhere")
    write_message(spool.root / "delay" / "orders:1")
    mover = start_mover(spool.root)
    processes.append(mover)
    wait_until(lambda: "there is no folder for it" in mover.log())

    away.rename(orders)

    wait_until(lambda: names_in(orders) == ["1"])
