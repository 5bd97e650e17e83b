"""The prefetch count: an upper bound, shared fairly."""

from __future__ import annotations

from threading import Event, Thread

from mq.client import Client
from mq.kombu.prefetch import MOST_UNACKNOWLEDGED, Prefetch
from tests.support.consuming import Connect, Consumed, leased, publish


def never() -> bool:
    return False


def test_no_more_than_the_prefetch_count_is_leased(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect()
    publish(connection, queue, *range(10))
    consumed = Consumed(connection, queue, prefetch=3)
    seen: list[int] = []

    def come(number: int) -> bool:
        seen.append(leased(client, queue))
        return len(consumed.messages) >= number

    for number in range(1, 11):
        consumed.drain(lambda: come(number))
        consumed.messages[number - 1].ack()

    assert sorted(consumed.bodies()) == list(range(10))
    assert max(seen) <= 3


def test_two_queues_share_one_prefetch_count(connect: Connect, client: Client, queue: str) -> None:
    connection, names = connect(), (f"{queue}-a", f"{queue}-b")
    for name in names:
        publish(connection, name, *range(8))
    consumed = Consumed(connection, *names, prefetch=3)

    def settle() -> bool:
        assert sum(leased(client, name) for name in names) <= 3
        done = len(consumed.messages)
        for message in consumed.messages[settled[0] :]:
            message.ack()
        settled[0] = done
        return done == 16

    settled = [0]
    consumed.drain(settle)


def test_one_message_at_a_time_from_two_queues(connect: Connect, queue: str) -> None:
    """They take turns because there is less room than queues."""
    connection, names = connect(), (f"{queue}-a", f"{queue}-b")
    publish(connection, names[0], *range(5))
    publish(connection, names[1], "last")
    consumed = Consumed(connection, *names, prefetch=1)

    for number in range(1, 7):
        consumed.drain_count(number)
        consumed.messages[-1].ack()

    assert "last" in consumed.bodies()


def test_a_full_room_makes_fetchers_wait_until_some_of_it_is_free() -> None:
    prefetch = Prefetch()
    prefetch.limit(2)
    prefetch.join("a")
    assert prefetch.reserve("a", 100, never) == 2
    prefetch.end_reservation("a", 2, 2)
    taken: list[int] = []
    waiting = Thread(target=lambda: taken.append(prefetch.reserve("a", 100, never)))
    waiting.start()
    assert taken == []

    prefetch.free(1)

    waiting.join(10)
    assert taken == [1]


def test_a_reservation_leaves_a_share_to_the_others() -> None:
    prefetch = Prefetch()
    prefetch.limit(8)
    prefetch.join("a")
    prefetch.join("b")

    assert prefetch.reserve("a", 100, never) == 4
    assert prefetch.reserve("b", 100, never) == 4
    prefetch.end_reservation("b", 4, 0)
    prefetch.leave("b")
    prefetch.end_reservation("a", 4, 0)
    assert prefetch.reserve("a", 100, never) == 8


def test_nobody_waits_for_messages_while_another_queue_has_some() -> None:
    prefetch = Prefetch()
    prefetch.join("a")
    assert prefetch.wait_seconds(20, 1) == 20
    prefetch.join("b")
    assert prefetch.wait_seconds(20, 1) == 1

    prefetch.end_reservation("a", prefetch.reserve("a", 1, never), 1)

    assert prefetch.wait_seconds(20, 1) == 0


def test_one_that_is_stopped_waits_no_longer() -> None:
    prefetch, stopped = Prefetch(), Event()
    prefetch.limit(1)
    prefetch.use(1)
    taken: list[int] = []
    waiting = Thread(target=lambda: taken.append(prefetch.reserve("a", 1, stopped.is_set)))
    waiting.start()

    stopped.set()
    prefetch.wake()

    waiting.join(10)
    assert taken == [0]


def test_a_prefetch_count_of_zero_has_a_limit_too() -> None:
    prefetch = Prefetch()
    prefetch.join("a")
    prefetch.limit(0)

    assert prefetch.reserve("a", 10**6, never) == MOST_UNACKNOWLEDGED
