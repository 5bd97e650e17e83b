"""A clock that is set back, or runs on, while the mover is at work."""

from __future__ import annotations

import fcntl
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from mq.config import MoverConfig
from mq.disk.files import Files
from mq.spool.spool import Spool
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


def test_what_falls_due_again_meanwhile_waits_for_the_next_time(
    root: Path, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process holds many messages: the first is due again before the last has been
    tried."""
    with ExitStack() as stack:
        for number in range(20):
            held = root / "delay" / f"orders:{number}"
            write_message(held, seal=seal_of(b"body", count=1), due_in_seconds=-1)
            fcntl.flock(stack.enter_context(open(held, "rb")), fcntl.LOCK_EX)
        mover = stack.enter_context(
            closing(Mover(MoverConfig(root / "delay", root / "queues"), Files()))
        )
        mover.scan()
        now_ns = time.time_ns()
        times = iter(range(now_ns + SECOND_NS, now_ns + 4 * SECOND_NS, SECOND_NS // 100))
        monkeypatch.setattr(time, "time_ns", lambda: next(times))  # 300 looks, 10 ms each
        mover.move_due()
