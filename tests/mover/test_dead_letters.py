"""Messages that were received too often, and cannot be dead letters."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from pathlib import Path

from structlog.testing import capture_logs

from mq.config import MoverConfig
from mq.disk.files import Files
from mq.metrics.tally import by_queue
from mq.names import QueueName
from mq.spool.queue.queues import begin_deletion, finish_deletion
from mq.spool.spool import Spool
from mq_mover.mover import Mover
from tests.support.messages import names_in, seal_of, write_message
from tests.support.processes import Process, wait_until


def test_a_message_that_cannot_die_is_redelivered_and_reported_once(
    root: Path, spool: Spool, orders: Path
) -> None:
    delay = root / "delay"
    write_message(delay / "orders.dead:1", b"other", due_in_seconds=1000)
    config = MoverConfig(delay, root / "queues", max_receives=3)

    with closing(Mover(config, Files())) as mover, capture_logs() as logs:
        for _ in range(2):
            write_message(root / "aside", seal=seal_of(b"body", count=3), due_in_seconds=-1)
            (root / "aside").rename(delay / "orders:1")
            mover.scan()
            assert names_in(orders) == ["1"]
            (orders / "1").unlink()

    assert [(each["name"], each["why"]) for each in logs] == [
        ("orders:1", "another message of that id is in queue orders.dead; remove one of them")
    ]
    counted = by_queue(mover.counts)["orders"]
    assert (counted.redelivered, counted.dead_lettered) == (2, 0)


def test_a_message_that_none_of_its_dead_letter_queues_takes_names_them(
    root: Path, spool: Spool, orders: Path
) -> None:
    delay = root / "delay"
    (orders / ".settings").write_text("dead-letters=graves\nmax-receives=3\n")
    for name in ("graves:1", "orders.dead:1"):
        write_message(delay / name, b"other", due_in_seconds=1000)
    write_message(delay / "orders:1", seal=seal_of(b"body", count=3), due_in_seconds=-1)

    config = MoverConfig(delay, root / "queues")

    with closing(Mover(config, Files())) as mover, capture_logs() as logs:
        mover.scan()

    assert names_in(orders) == ["1"]
    assert [each["why"] for each in logs] == [
        "another message of that id is in queue graves and in queue orders.dead; remove one of them"
    ]


def test_what_is_in_the_place_of_the_dead_letter_queue_is_named(
    root: Path, spool: Spool, orders: Path
) -> None:
    """The message's own queue is there, so "no folder for it" would send a person to that one."""
    dead = root / "queues" / "orders.dead"
    dead.write_text("a file")
    write_message(root / "delay" / "orders:1", seal=seal_of(b"body", count=3), due_in_seconds=-1)
    config = MoverConfig(root / "delay", root / "queues", max_receives=3)

    with closing(Mover(config, Files())) as mover, capture_logs() as logs:
        mover.scan()

    assert [(each["name"], each["why"]) for each in logs] == [
        (
            "orders:1",
            f"it was received too often, and {dead} is not a folder, or another user's: move away "
            "what is there, or chown it",
        )
    ]
    assert names_in(root / "delay") == ["orders:1"]
    assert names_in(orders) == []


def test_a_message_dies_soon_after_the_deletion_of_its_dead_letter_queue(
    root: Path, spool: Spool, orders: Path
) -> None:
    dead = QueueName("orders.dead")
    (root / "queues" / dead).mkdir()
    assert begin_deletion(spool, dead)
    write_message(root / "delay" / "orders:1", seal=seal_of(b"body", count=3), due_in_seconds=-1)
    folders = root / "delay", root / "queues"
    config = MoverConfig(*folders, max_receives=3, rescan_seconds=3600, retry_seconds=0.05)

    with closing(Mover(config, Files())) as mover, capture_logs() as logs:
        mover.scan()
        assert names_in(root / "delay") == ["orders:1"]
        finish_deletion(spool, dead)

        def has_died() -> bool:
            mover.move_due()
            return (root / "queues" / dead / "1").exists()

        wait_until(has_died)

    assert logs == []


def test_a_dead_letter_queue_has_the_mode_of_the_others_whatever_the_umask(
    root: Path, spool: Spool, orders: Path, processes: list[Process]
) -> None:
    for folder in ("queues", "queues/orders"):
        (root / folder).chmod(0o770)
    write_message(root / "delay/orders:1", seal=seal_of(b"body", count=1), due_in_seconds=-1)
    folders = f"--source={root / 'delay'}", f"--destination={root / 'queues'}"

    before = os.umask(0o077)
    try:
        processes.append(
            Process("mq_mover", *folders, "--max-receives=1", log=root.with_name("mover.log"))
        )
    finally:
        os.umask(before)

    dead = root / "queues/orders.dead"
    wait_until((dead / "1").exists)
    assert stat.S_IMODE(dead.stat().st_mode) == 0o770
