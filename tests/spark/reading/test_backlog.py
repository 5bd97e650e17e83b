"""What waits in the queues of a stream, without Spark."""

from __future__ import annotations

from mq.names import MessageId, QueueName
from mq.spool.spool import Spool
from pyspark_mq.reading.backlog import Backlog
from tests.support.messages import write_message

OLD = MessageId("01a1fcfc-2d8b-7000-8000-000000000001")
NEW = MessageId("01a1fcfc-2d8b-7000-8000-000000000002")


def test_the_oldest_of_all_queues_comes_first(spool: Spool) -> None:
    (spool.root / "queues/returns").mkdir()
    write_message(spool.root / "queues/orders" / NEW)
    write_message(spool.root / "queues/returns" / OLD)
    backlog = Backlog(spool, ("orders", "returns"))

    assert backlog.look() == 2
    assert backlog.pop_many(2) == [(QueueName("returns"), OLD), (QueueName("orders"), NEW)]


def test_a_pattern_passes_over_fifo_queues(spool: Spool) -> None:
    (spool.root / "queues/orders.fifo").mkdir()
    write_message(spool.root / "queues/orders.fifo" / OLD)
    write_message(spool.root / "queues/orders" / NEW)

    for patterns in ((), ("*",), ("orders*",), ("*.fifo",)):
        backlog = Backlog(spool, patterns)
        assert backlog.look() == backlog.count() == (patterns != ("*.fifo",))
        assert backlog.pop() == (None if patterns == ("*.fifo",) else (QueueName("orders"), NEW))
