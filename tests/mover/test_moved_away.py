"""The mover ends when another folder has the place of its own."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from mq.config import MoverConfig
from mq.disk.files import Files
from mq.errors import CommandFailed, ExitCode
from mq.spool.folders import Spool
from mq_mover.mover import Mover
from tests.support.messages import names_in, write_message


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
