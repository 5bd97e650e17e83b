"""Several queues: one request asks for a message of any, in the order that the options say."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from kombu import Connection, Consumer, Queue

from mq.client import BadRequest, Client, QueueNotFound, operations
from mq.client.retries import WORKER_PAUSE_SECONDS
from mq.config import MAX_QUEUES
from mq.kombu import receiver
from mq.names import QueueName
from tests.support.consuming import Connect, Consumed, publish, requests
from tests.support.processes import Server, wait_until


def names_of(queue: str) -> list[str]:
    """Three queues. The first may be asked before the others are consumed too, so it is the first
    in every order."""
    return [f"{queue}-{letter}" for letter in "acb"]


def taken_one_by_one(connection: Connection, names: list[str], count: int) -> list[Any]:
    """Consume with room for one message; each is acknowledged before the next."""
    consumed = Consumed(connection, *names, prefetch=1)
    for number in range(1, count + 1):
        consumed.drain_count(number)
        consumed.messages[-1].ack()
    return consumed.bodies()


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({"queue_order_strategy": "priority"}, "aaccbb"),
        ({"queue_order_strategy": "sorted"}, "aabbcc"),
        ({"queue_order_strategy": "round_robin"}, "acbacb"),
        ({}, "acbacb"),
    ],
)
def test_queues_are_asked_in_the_order_that_was_chosen(
    connect: Connect, queue: str, options: dict[str, Any], order: str
) -> None:
    connection, names = connect(**options), names_of(queue)
    for name in names:
        publish(connection, name, name[-1], name[-1])

    assert "".join(taken_one_by_one(connection, names, 6)) == order


def test_an_urgent_message_meets_a_request_that_waits(
    start_server: Callable[..., Server], queue: str
) -> None:
    """The one place of the channel is not taken by a request for another queue: few are made."""
    server = start_server("--admin=127.0.0.1:0")
    names = names_of(queue)
    with Connection(server.url.replace("http", "mq")) as connection, Client(server.url) as client:
        for name in names:
            client.queue(name).create()
        consumed = Consumed(connection, *names, prefetch=1)
        for number, name in enumerate(names * 3, start=1):
            client.queue(name).publish(str(number), content_type="application/json")
            consumed.drain_count(number)
            consumed.messages[-1].ack()

        assert consumed.bodies() == list(range(1, 10))
        # For each a publish, a receive and a removal. Consuming more and more queues takes a few.
        assert requests(server) <= 9 * 3 + 9


def test_a_queue_that_is_missing_ends_its_own_consumption_alone(
    connect: Connect, client: Client, queue: str
) -> None:
    connection, names = connect(), names_of(queue)
    for name in names:
        client.queue(name).create()
    consumed = Consumed(connection, *names)

    client.queue(names[1]).delete()

    with pytest.raises(QueueNotFound, match=names[1]):
        connection.drain_events(timeout=30)
    for number, name in enumerate((names[0], names[2]), start=1):
        client.queue(name).publish(str(number), content_type="application/json")
        consumed.drain_count(number)
    assert consumed.bodies() == [1, 2]


def test_one_who_begins_later_is_served_at_once(
    connect: Connect, client: Client, queue: str
) -> None:
    """A request for the other queue waits meanwhile, for longer than this test."""
    connection, (first, second, _) = connect(wait_time_seconds=60), names_of(queue)
    consumed = Consumed(connection, first)
    client.queue(second).create()
    got: list[Any] = []
    late = Consumer(consumed.channel, [Queue(second)], on_message=got.append)
    late.consume()

    client.queue(second).publish("1", content_type="application/json")
    consumed.drain(lambda: got)
    late.cancel()
    client.queue(first).publish("2", content_type="application/json")
    consumed.drain_count(1)

    assert [each.decode() for each in got] == [1]
    assert consumed.bodies() == [2]
    client.queue(second).publish("3", content_type="application/json")
    assert client.queue(second).counts().ready == 1


def test_more_queues_than_one_request_can_name(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect()
    names = [f"{queue}-{number}" for number in range(MAX_QUEUES + 3)]
    for name in names:
        client.queue(name).create()
    consumed = Consumed(connection, *names)

    for number, name in enumerate((names[-1], names[0], names[-2]), start=1):
        client.queue(name).publish(str(number), content_type="application/json")
        consumed.drain_count(number)

    assert consumed.bodies() == [1, 2, 3]


def test_the_others_of_more_queues_than_one_request_can_name_are_not_waited_for(
    connect: Connect, client: Client, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{queue}-{number}" for number in range(MAX_QUEUES + 3)]
    for name in names:
        client.queue(name).create()
    waits, ask = list[float](), operations.receive_many

    def note(context: Any, queues: Any, most: int, wait: float, *given: Any) -> Any:
        waits.append(wait)
        return ask(context, queues, most, wait, *given)

    monkeypatch.setattr(operations, "receive_many", note)
    for number in range(4):
        client.queue(names[-1]).publish(str(number), content_type="application/json")
    consumed = Consumed(connect(), *names, prefetch=1)
    consumed.drain_count(1)

    waits.clear()  # There is no room for another one.
    for number in (2, 3, 4):
        consumed.messages[-1].ack()
        consumed.drain_count(number)

    assert consumed.bodies() == [0, 1, 2, 3]
    assert set(waits) == {0.0}


def test_a_server_that_takes_no_request_for_several_queues_is_asked_with_pauses(
    connect: Connect, client: Client, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is older than the worker."""
    names, pauses = names_of(queue), list[float | None]()
    ask = operations.receive_many

    def ask_one(context: Any, queues: list[QueueName], *given: Any) -> Any:
        if len(queues) > 1:
            raise BadRequest("unknown parameter 'then' (400)")
        return (yield from ask(context, queues, *given))

    class Noted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            return super().wait(timeout)

    class NotedPoll(receiver._Poll):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.ended = Noted()

    monkeypatch.setattr(operations, "receive_many", ask_one)
    monkeypatch.setattr(receiver, "_Poll", NotedPoll)
    consumed = Consumed(connect(), *names)

    wait_until(lambda: WORKER_PAUSE_SECONDS in pauses)
    client.queue(names[-1]).publish("1", content_type="application/json")
    consumed.drain_count(1)

    assert consumed.bodies() == [1]
