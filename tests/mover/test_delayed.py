"""What the mover counts of messages that were only delayed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from mq.config import MoverConfig
from mq.disk.files import Files
from mq.metrics.tally import by_queue
from mq.spool.spool import Spool
from mq_mover.mover import Mover
from tests.support.messages import names_in, seal_of, write_message


def test_what_was_only_delayed_does_not_count_as_redelivered(
    root: Path, spool: Spool, orders: Path
) -> None:
    """An alert compares what comes back with what is received: in a queue whose messages are all
    published with a delay, it would always fire."""
    for name, count in (("delayed", 0), ("received", 1)):
        message = root / "delay" / f"orders:{name}"
        write_message(message, seal=seal_of(b"body", count=count), due_in_seconds=-1)

    with closing(Mover(MoverConfig(root / "delay", root / "queues"), Files())) as mover:
        mover.scan()

        assert names_in(orders) == ["delayed", "received"]
        assert by_queue(mover.counts)["orders"].redelivered == 1
