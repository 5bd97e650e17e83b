"""A clock that is set back while the mover is at work."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest

from mq.config import MoverConfig
from mq.spool.files import Files
from mq.spool.folders import Spool
from mq_mover.mover import Mover
from tests.support.messages import SECOND_NS, names_in, seal_of, write_message

_HOUR_NS = 3600 * SECOND_NS


def test_what_is_not_due_any_more_does_not_keep_the_mover_busy(
    root: Path, spool: Spool, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_message(root / "delay" / "orders:due", seal=seal_of(b"body", count=1), due_in_seconds=-1)
    true_ns = time.time_ns
    with closing(Mover(MoverConfig(root / "delay", root / "queues"), Files())) as mover:
        monkeypatch.setattr(time, "time_ns", lambda: true_ns() - _HOUR_NS)
        mover.scan()

        times = iter([true_ns()] + [true_ns() - _HOUR_NS] * 20)  # no more than that are asked
        monkeypatch.setattr(time, "time_ns", lambda: next(times))
        mover.move_due()
        assert names_in(orders) == []

        monkeypatch.setattr(time, "time_ns", true_ns)
        mover.move_due()
        assert names_in(orders) == ["due"]
