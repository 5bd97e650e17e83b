"""The channel: publishing, consuming and settling, against a real server."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from kombu import Queue

from mq.client import Client
from tests.support.consuming import Connect, Consumed, leased, publish, ready
from tests.support.processes import wait_until


def test_an_acknowledged_message_is_removed(connect: Connect, client: Client, queue: str) -> None:
    connection = connect()
    publish(connection, queue, {"coffee": 2})
    consumed = Consumed(connection, queue)
    consumed.drain_count(1)

    consumed.messages[0].ack()

    assert consumed.bodies() == [{"coffee": 2}]
    wait_until(lambda: client.queue(queue).counts()[1:4] == (0, 0, 0))


def test_multiple_acknowledges_what_came_before(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect()
    publish(connection, queue, 1, 2, 3)
    consumed = Consumed(connection, queue)
    consumed.drain_count(3)

    consumed.messages[1].ack(multiple=True)

    wait_until(lambda: leased(client, queue) == 1)
    consumed.messages[2].ack()
    wait_until(lambda: leased(client, queue) == 0)


def test_requeue_releases_at_once_and_the_message_says_that_it_came_before(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect(visibility_timeout=600)
    publish(connection, queue, "tea")
    consumed = Consumed(connection, queue)
    consumed.drain_count(1)

    consumed.messages[0].requeue()
    consumed.drain_count(2)

    assert consumed.bodies() == ["tea", "tea"]
    redelivered = [message.delivery_info["redelivered"] for message in consumed.messages]
    assert redelivered == [False, True]
    assert consumed.messages[0].delivery_tag != consumed.messages[1].delivery_tag


def test_reject_without_requeue_makes_a_dead_letter(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect()
    publish(connection, queue, {"coffee": 2})
    consumed = Consumed(connection, queue)
    consumed.drain_count(1)

    consumed.messages[0].reject()

    wait_until(lambda: client.queue(queue).counts()[1:4] == (0, 0, 0))
    [letter] = client.queue(f"{queue}.dead").peek()
    assert json.loads(letter.body)["body"] == '{"coffee": 2}'
    assert letter.id == consumed.messages[0].delivery_tag.partition(":")[0]
    assert (letter.dead_from, letter.dead_reason) == (queue, "rejected")


def test_reject_goes_where_the_settings_of_the_queue_say(
    connect: Connect, client: Client, queue: str
) -> None:
    client.queue(queue).create({"dead-letters": f"{queue}-buried"})
    connection = connect()
    publish(connection, queue, "tea")
    consumed = Consumed(connection, queue)
    consumed.drain_count(1)

    consumed.messages[0].reject()

    wait_until(lambda: leased(client, queue) == 0)
    assert ready(client, f"{queue}-buried") == 1


def test_reject_from_a_queue_of_dead_letters_removes(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect()
    publish(connection, f"{queue}.dead", "tea")
    consumed = Consumed(connection, f"{queue}.dead")
    consumed.drain_count(1)

    consumed.messages[0].reject()

    wait_until(lambda: client.queue(f"{queue}.dead").counts()[1:4] == (0, 0, 0))


def test_closing_releases_what_is_unacknowledged(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect(visibility_timeout=600)
    publish(connection, queue, 1, 2, 3)
    consumed = Consumed(connection, queue, prefetch=2)
    consumed.drain_count(2)

    consumed.channel.close()

    assert client.queue(queue).counts()[1:4] == (3, 0, 0)


def test_cancelling_a_consumer_releases_what_it_was_not_given(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect(visibility_timeout=600)
    publish(connection, queue, 1, 2, 3)
    consumed = Consumed(connection, queue)
    wait_until(lambda: leased(client, queue) == 3)

    consumed.consumer.cancel()

    wait_until(lambda: client.queue(queue).counts()[1:4] == (3, 0, 0))
    assert consumed.messages == []


def test_a_consumer_without_acknowledgements_removes_what_it_is_given(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect()
    publish(connection, queue, "tea")
    consumed = Consumed(connection, queue, no_ack=True)

    consumed.drain_count(1)

    wait_until(lambda: client.queue(queue).counts()[1:4] == (0, 0, 0))


def test_get_takes_one_message_or_none(connect: Connect, client: Client, queue: str) -> None:
    channel = connect().channel()
    bound = Queue(queue, channel=channel)
    bound.declare()

    assert bound.get() is None
    publish(channel.connection.client, queue, "tea", "milk")
    first, second = bound.get(), bound.get(no_ack=True)

    assert (first.decode(), second.decode()) == ("tea", "milk")
    first.ack()
    wait_until(lambda: client.queue(queue).counts()[1:4] == (0, 0, 0))


def test_what_was_requeued_is_there_for_the_next_get_count_and_purge(
    connect: Connect, queue: str
) -> None:
    """Messages are released by another thread: each of these waits for it."""
    channel = connect().channel()
    bound = Queue(queue, channel=channel)
    bound.declare()
    publish(channel.connection.client, queue, "tea")

    for _ in range(10):
        bound.get().requeue()
        bound.get().requeue()
        assert channel.queue_declare(queue, passive=True).message_count == 1
    bound.get().requeue()

    assert bound.purge() == 1


def test_an_eta_is_a_delay_on_the_server(connect: Connect, client: Client, queue: str) -> None:
    eta = (datetime.now(UTC) + timedelta(hours=1)).isoformat()

    publish(connect(), queue, "later", headers={"eta": eta})
    publish(connect(), queue, "later", delay_seconds=60)

    assert client.queue(queue).counts()[1:4] == (0, 0, 2)


def test_a_delayed_message_comes_when_it_is_due(connect: Connect, queue: str) -> None:
    connection = connect()
    publish(connection, queue, "later", delay_seconds=0.3)
    publish(connection, queue, "now")

    consumed = Consumed(connection, queue)
    consumed.drain_count(1)

    assert consumed.bodies() == ["now"]


def test_publishing_again_makes_no_second_message(
    connect: Connect, client: Client, queue: str
) -> None:
    """kombu prepares a message again, with the same properties, when it tries again."""
    channel = connect().channel()
    Queue(queue, channel=channel).declare()
    properties = {"correlation_id": "one"}

    for _ in range(2):
        message = channel.prepare_message("tea", 0, "text/plain", "utf-8", {}, properties)
        channel.basic_publish(message, "", queue)

    assert ready(client, queue) == 1


def test_a_message_that_curl_published_is_consumed(
    connect: Connect, client: Client, queue: str
) -> None:
    client.queue(queue).create()
    client.queue(queue).publish(b'{"coffee": 2}', content_type="application/json")
    client.queue(queue).publish(b"\xff\x00")

    consumed = Consumed(connect(), queue)
    consumed.drain_count(2)

    assert consumed.bodies() == [{"coffee": 2}, b"\xff\x00"]


@pytest.mark.parametrize(
    "text",
    [
        '{"body":"x","headers":{},"properties":{"delivery_info":{},"body_encoding": "utf8"}}',
        '{"body":"x","headers":{},"properties":{"delivery_info":{},"body_encoding": 8}}',
        '{"body":"x","headers":{},"properties":{"delivery_info":{},"body_encoding": "base64"}}',
        '{"body":5,"headers":{},"properties":{"delivery_info":{},"body_encoding": "base64"}}',
        '{"body": "x", "headers": ["tea"], "properties": {"delivery_info": {}}}',
        '{"body":"x","headers":{"a":{"__type__":"decimal","__value__":"x"}},'
        '"properties":{"delivery_info":{}}}',
        "[" * 100_000,
    ],
    ids=["encoding", "number", "base64", "body", "headers", "type", "nested"],
)
def test_what_is_almost_a_message_of_kombu_is_all_body(
    connect: Connect, client: Client, queue: str, text: str
) -> None:
    client.queue(queue).create()
    client.queue(queue).publish(text, content_type="text/plain")

    consumed = Consumed(connect(), queue)
    consumed.drain_count(1)

    assert consumed.bodies() == [text]


def test_text_can_be_read_in_the_queue_and_bytes_come_back(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect()
    publish(connection, queue, {"cup": "größer"}, b"\xff\x00")

    assert json.loads(client.queue(queue).peek()[0].body)["body"] == '{"cup": "gr\\u00f6\\u00dfer"}'
    consumed = Consumed(connection, queue)
    consumed.drain_count(2)
    assert consumed.bodies() == [{"cup": "größer"}, b"\xff\x00"]


def test_headers_come_as_they_went(connect: Connect, queue: str) -> None:
    connection = connect()
    headers = {
        "at": datetime(2026, 11, 21, 8, 30, tzinfo=UTC), "by": UUID(int=7),
        "price": Decimal("2.50"), "raw": b"\xff",
    }  # fmt: skip
    publish(connection, queue, "tea", headers=headers)

    consumed = Consumed(connection, queue)
    consumed.drain_count(1)

    assert headers.items() <= consumed.messages[0].headers.items()
