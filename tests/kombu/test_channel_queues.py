"""Queues and exchanges: declaring, routing, purging, and what is refused, against a real server."""

from __future__ import annotations

import pytest
from kombu import Exchange, Queue
from kombu.exceptions import ChannelError

from mq.client import Client, InvalidName
from tests.support.consuming import Connect, publish, ready


def test_a_priority_is_refused(connect: Connect, queue: str) -> None:
    with pytest.raises(ValueError, match="MQ has no priorities"):
        publish(connect(), queue, "urgent", priority=3)
    publish(connect(), queue, "usual", priority=0)


def test_a_message_that_expires_is_taken_only_from_celery(connect: Connect, queue: str) -> None:
    """Celery's worker drops a task by its header `expires`."""
    with pytest.raises(ValueError, match="Celery's `expires` works"):
        publish(connect(), queue, "soon", expiration=60)
    publish(connect(), queue, "soon", expiration=60, headers={"expires": "2126-01-01T00:00:00"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_priority": 9}, "no priorities"),
        ({"message_ttl": 5}, "ttl"),
        ({"max_length": 5}, "max-messages"),
        ({"auto_delete": True}, "auto_delete"),
    ],
)
def test_queues_that_mq_does_not_have_are_refused(
    connect: Connect, queue: str, options: dict[str, object], said: str
) -> None:
    channel = connect().channel()

    with pytest.raises(ValueError, match=said):
        Queue(queue, channel=channel, **options).declare()


def test_a_fanout_exchange_is_refused(connect: Connect) -> None:
    channel = connect().channel()

    with pytest.raises(ChannelError, match="fanout"):
        Exchange("everybody", type="fanout", channel=channel).declare()


def test_a_name_that_is_not_one_of_mq_is_refused(connect: Connect) -> None:
    with pytest.raises(InvalidName, match="letters, digits"):
        publish(connect(), "a b", "tea")


def test_direct_and_topic_exchanges_route(connect: Connect, client: Client, queue: str) -> None:
    connection = connect()
    menu = Exchange(f"{queue}-menu", type="topic")
    drinks = Queue(f"{queue}-drinks", exchange=menu, routing_key="drink.*")
    rest = Queue(f"{queue}-all", exchange=menu, routing_key="#")
    producer = connection.Producer()

    for key in ("drink.tea", "cake"):
        producer.publish("one", exchange=menu, routing_key=key, declare=[drinks, rest])

    assert (ready(client, drinks.name), ready(client, rest.name)) == (1, 2)


def test_a_task_that_no_queue_would_get_is_refused(connect: Connect, queue: str) -> None:
    producer = connect().Producer()

    with pytest.raises(ChannelError, match="declare the queue"):
        producer.publish("lost", exchange=Exchange(f"{queue}-x"), routing_key="nowhere")


def test_an_event_that_nobody_listens_to_is_dropped(connect: Connect, queue: str) -> None:
    producer = connect().Producer()

    events = Exchange(f"{queue}-events", type="topic")

    producer.publish("event", exchange=events, routing_key="task.sent", declare=[events])


def test_a_queue_that_was_deleted_is_made_again_to_publish(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect()
    publish(connection, queue, 1)
    client.queue(queue).delete()

    connection.Producer().publish(2, routing_key=queue)

    assert ready(client, queue) == 1


def test_purge_removes_what_is_ready(connect: Connect, client: Client, queue: str) -> None:
    connection = connect()
    publish(connection, queue, 1, 2, 3)
    publish(connection, queue, 4, delay_seconds=60)

    assert Queue(queue, channel=connection.channel()).purge() == 3
    assert client.queue(queue).counts()[1:4] == (0, 0, 1)


def test_a_purge_of_no_queue_is_an_error_of_the_channel(connect: Connect, queue: str) -> None:
    with pytest.raises(ChannelError, match="404"):
        Queue(queue, channel=connect().channel()).purge()


def test_a_passive_declaration_counts_and_makes_nothing(connect: Connect, queue: str) -> None:
    connection = connect()
    channel = connection.channel()

    with pytest.raises(ChannelError, match="404"):
        channel.queue_declare(queue, passive=True)
    publish(connection, queue, 1, 2)

    assert channel.queue_declare(queue, passive=True).message_count == 2


def test_a_queue_that_is_to_be_deleted_if_empty_keeps_its_messages(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect()
    publish(connection, queue, 1)
    bound = Queue(queue, channel=connection.channel())

    bound.delete(if_empty=True)
    assert ready(client, queue) == 1
    bound.delete()

    assert client.queue(queue).create()
