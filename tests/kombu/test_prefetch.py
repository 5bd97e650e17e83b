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


def test_a_full_room_is_waited_for() -> None:
    prefetch = Prefetch()
    prefetch.limit(2)
    assert prefetch.wait_for_room(never) == 2
    prefetch.use(2)
    found: list[int] = []
    waiting = Thread(target=lambda: found.append(prefetch.wait_for_room(never)))
    waiting.start()
    assert found == []

    prefetch.free(1)

    waiting.join(10)
    assert found == [1]


def test_one_that_is_stopped_waits_no_longer() -> None:
    prefetch, stopped = Prefetch(), Event()
    prefetch.limit(1)
    prefetch.use(1)
    found: list[int] = []
    waiting = Thread(target=lambda: found.append(prefetch.wait_for_room(stopped.is_set)))
    waiting.start()

    stopped.set()
    prefetch.wake()

    waiting.join(10)
    assert found == [0]


def test_a_prefetch_count_of_zero_has_a_limit_too() -> None:
    prefetch = Prefetch()
    prefetch.limit(0)

    assert prefetch.wait_for_room(never) == MOST_UNACKNOWLEDGED
