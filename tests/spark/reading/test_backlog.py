"""What waits in the queues of a stream, without Spark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import chain, repeat

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


def test_a_queue_that_is_deleted_has_nothing_and_is_read_again_once_it_is_made_again(
    spool: Spool,
) -> None:
    orders = spool.root / "queues/orders"
    write_message(orders / OLD)
    backlog = Backlog(spool, ("orders",))
    assert backlog.look() == 1
    shutil.rmtree(orders)

    assert backlog.pop() == (QueueName("orders"), OLD)
    assert backlog.look() == 0
    orders.mkdir()
    write_message(orders / NEW)
    assert (backlog.look(), backlog.pop()) == (1, (QueueName("orders"), NEW))


def test_a_pattern_passes_over_fifo_queues(spool: Spool) -> None:
    (spool.root / "queues/orders.fifo").mkdir()
    write_message(spool.root / "queues/orders.fifo" / OLD)
    write_message(spool.root / "queues/orders" / NEW)

    for patterns in ((), ("*",), ("orders*",), ("*.fifo",)):
        backlog = Backlog(spool, patterns)
        assert backlog.look() == backlog.count() == (patterns != ("*.fifo",))
        assert backlog.pop() == (None if patterns == ("*.fifo",) else (QueueName("orders"), NEW))


def test_messages_are_counted_a_tenth_of_the_time_and_what_is_popped_meanwhile_is_subtracted(
    spool: Spool,
) -> None:
    write_message(spool.root / "queues/orders" / OLD)
    clock: Iterator[float] = chain([0.0, 0.0, 1.0, 9.9, 9.9], repeat(10.0))
    backlog = Backlog(spool, ("orders",), clock.__next__)
    assert backlog.count() == 1  # It took a second.

    write_message(spool.root / "queues/orders" / NEW)

    assert backlog.count() == 1
    backlog.look()
    (spool.root / "queues/orders" / OLD).unlink()
    assert (backlog.pop(), backlog.count()) == ((QueueName("orders"), OLD), 0)
    assert backlog.count() == 1
