"""Publish, receive and what can be done with a message; both clients do the same."""

from __future__ import annotations

import inspect
import json
import os
import threading
from datetime import UTC, datetime

import pytest

import mq.client
from mq.client import (
    AsyncClient,
    AsyncMessage,
    AsyncQueue,
    AsyncWorker,
    BadRequest,
    Client,
    IdTaken,
    InvalidName,
    LeaseLost,
    Message,
    MessageNotFound,
    NewMessage,
    Queue,
    QueueNotFound,
    Worker,
)
from tests.support.faces import counts, new_queue, receive_now
from tests.support.processes import Server
from tests.support.wire import SMALL_BODY_BYTES, Wire

PAIRS = [(Client, AsyncClient), (Queue, AsyncQueue), (Message, AsyncMessage), (Worker, AsyncWorker)]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].__name__)
def test_both_clients_have_the_same_methods_and_parameters(pair: tuple[type, type]) -> None:
    def methods(kind: type) -> dict[str, list[tuple[str, object]]]:
        return {
            name: [
                (each.name, each.default) for each in inspect.signature(found).parameters.values()
            ]
            for name, found in vars(kind).items()
            if (inspect.isfunction(found) and not name.startswith("_")) or name == "__init__"
        }

    blocking, asynchronous = map(methods, pair)
    blocking.pop("connections", None)

    assert [*blocking] == [*asynchronous]
    for name in blocking.keys() - {"run"}:
        assert blocking[name] == asynchronous[name], name


def test_every_public_name_is_there() -> None:
    assert [name for name in mq.client.__all__ if not hasattr(mq.client, name)] == []


def test_a_queue_is_made_counted_and_deleted(mq: Client) -> None:
    orders = new_queue(mq)

    assert orders.create() is False
    assert orders.counts() == (orders.name, 0, 0, 0, None)
    orders.delete()
    for ask in (orders.delete, orders.counts, orders.receive, lambda: orders.publish("late")):
        with pytest.raises(QueueNotFound) as caught:
            ask()
        assert caught.value.problem is not None
        assert caught.value.problem.type == "urn:mq:problem:queue-not-found"
        assert caught.value.problem.status == 404
        assert orders.name in caught.value.problem.detail


@pytest.mark.parametrize(
    "body", [b"", b"one", b"\xff\n\x00", os.urandom(SMALL_BODY_BYTES + 1), os.urandom(5_000_000)]
)
def test_a_body_comes_as_it_went(orders: Queue, body: bytes) -> None:
    before = datetime.now(UTC)

    message_id = orders.publish(body, content_type="application/x-test")

    message = receive_now(orders)
    assert message.id == message_id
    assert (message.body == body) is True
    assert message.content_type == "application/x-test"
    assert message.receive_count == 1
    assert message.queue == orders.name
    assert before <= message.published_at <= message.visible_at
    message.ack()
    assert counts(orders) == (0, 0, 0)


def test_text_goes_as_utf_8_and_says_so(orders: Queue) -> None:
    orders.publish("zwölf Brötchen")
    orders.publish(json.dumps({"rolls": 12}), content_type="application/json")
    orders.publish(bytearray(b"bytes"))

    text, document, data = orders.receive_many(10)

    assert (text.text(), text.content_type) == ("zwölf Brötchen", "text/plain; charset=utf-8")
    assert (document.json(), document.content_type) == ({"rolls": 12}, "application/json")
    assert (data.body, data.content_type) == (b"bytes", "application/octet-stream")


@pytest.mark.parametrize("body", [5, None, {"rolls": 12}, ["one"]])
def test_what_is_no_body_is_refused_here(orders: Queue, body: object) -> None:
    with pytest.raises(TypeError, match="a body is bytes or str"):
        orders.publish(body)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a body is bytes or str"):
        orders.publish_many([b"one", body])  # type: ignore[list-item]

    assert counts(orders) == (0, 0, 0)


@pytest.mark.parametrize("messages", ["one", b"one", NewMessage("one")])
def test_one_message_in_place_of_many_is_refused_here(orders: Queue, messages: object) -> None:
    with pytest.raises(TypeError, match="takes a list"):
        orders.publish_many(messages)  # type: ignore[arg-type]


def test_an_empty_queue_gives_none(orders: Queue) -> None:
    assert orders.receive() is None
    assert orders.receive(wait=0.05) is None
    assert orders.receive_many(10) == []
    assert list(orders.messages(wait=0)) == []
    assert orders.peek() == []


def test_a_receive_that_waits_gets_what_is_published_meanwhile(
    orders: Queue, server: Server
) -> None:
    found: list[Message | None] = []
    waiter = threading.Thread(target=lambda: found.append(orders.receive(wait=30)))
    waiter.start()
    wire = Wire(server.port)

    wire.publish(orders.name, b"late")

    waiter.join(10)
    wire.close()
    assert found[0] is not None
    assert found[0].body == b"late"


def test_a_delayed_message_is_hidden_until_then(hasty_orders: Queue) -> None:
    hasty_orders.publish("late", delay=600)
    hasty_orders.publish_many([NewMessage("late", delay=600)])
    assert counts(hasty_orders) == (0, 0, 2)
    assert hasty_orders.receive() is None

    hasty_orders.publish("later", delay=0.3)
    hasty_orders.publish_many([NewMessage("latest", delay=0.3)])

    found = [hasty_orders.receive(wait=20, visibility=60) for _ in range(2)]
    assert [each and each.text() for each in found] == ["later", "latest"]


def test_an_own_id_is_published_once(orders: Queue) -> None:
    first = orders.publish("one cake", message_id="order-4711")
    again = orders.publish("one cake", message_id="order-4711")

    assert first == again == "order-4711"
    assert counts(orders) == (1, 0, 0)
    with pytest.raises(IdTaken) as caught:
        orders.publish("two cakes", message_id="order-4711")
    assert caught.value.problem is not None
    assert (caught.value.problem.status, counts(orders)) == (409, (1, 0, 0))


def test_ids_that_the_client_makes_up_are_in_order(orders: Queue) -> None:
    ids = [orders.publish(f"{number}") for number in range(20)]

    assert ids == sorted(set(ids))
    assert [message.id for message in orders.receive_many(100)] == ids


def test_acknowledged_is_gone_and_released_is_back(orders: Queue) -> None:
    orders.publish("one")
    orders.publish("two")

    receive_now(orders).ack()
    two = receive_now(orders)
    two.release()

    assert two.is_settled
    again = receive_now(orders)
    assert (again.id, again.receive_count) == (two.id, 2)
    assert again.delivery.lease != two.delivery.lease


def test_released_with_a_delay_it_comes_back_then(hasty_orders: Queue) -> None:
    hasty_orders.publish("one")
    receive_now(hasty_orders, visibility=60).release(delay=600)
    assert hasty_orders.receive() is None

    hasty_orders.publish("two")
    receive_now(hasty_orders, visibility=60).release(delay=0.3)

    again = hasty_orders.receive(wait=20)
    assert again is not None
    assert (again.text(), again.receive_count) == ("two", 2)


def test_an_extended_lease_ends_later(orders: Queue) -> None:
    orders.publish(b"b" * (SMALL_BODY_BYTES + 1))
    message = receive_now(orders, visibility=5)
    first = message.visible_at

    message.extend(600)

    assert (message.visible_at - first).total_seconds() > 500
    message.extend()
    assert (message.visible_at - first).total_seconds() < 60
    message.ack()


def test_messages_come_one_by_one_until_none_is_left(orders: Queue) -> None:
    orders.publish_many(["one", "two", "three"])
    seen = []

    for message in orders.messages(wait=0):
        with message:
            seen.append(message.text())

    assert seen == ["one", "two", "three"]
    assert counts(orders) == (0, 0, 0)


def test_removal_by_id_needs_no_lease(orders: Queue) -> None:
    message_id = orders.publish("one")

    orders.remove(message_id)

    assert counts(orders) == (0, 0, 0)
    with pytest.raises(MessageNotFound):
        orders.remove("never-published")


def test_a_lease_that_somebody_took_over_is_lost(orders: Queue, server: Server) -> None:
    orders.publish("one")
    message = receive_now(orders)
    wire = Wire(server.port)
    assert wire.request("GET", f"/{orders.name}/messages?id={message.id}").status == 200
    wire.close()

    for settle in (message.ack, message.release, message.extend):
        with pytest.raises(LeaseLost) as caught:
            settle()
        assert caught.value.problem is not None
        assert caught.value.problem.status == 412

    assert message.is_lost
    assert not message.is_settled
    assert counts(orders) == (0, 1, 0)


def test_a_message_that_somebody_removed_is_lost(orders: Queue) -> None:
    orders.publish("one")
    message = receive_now(orders)
    orders.delete()
    orders.create()

    for settle in (message.release, message.extend):
        with pytest.raises(LeaseLost) as caught:
            settle()
        assert caught.value.problem is not None
        assert caught.value.problem.status == 404


def test_what_the_server_refuses_says_why(orders: Queue, mq: Client) -> None:
    with pytest.raises(BadRequest, match="visibility='-1'"):
        orders.receive(visibility=-1)
    with pytest.raises(BadRequest, match="Content-Type"):
        orders.publish("one", content_type="x" * 300)
    with pytest.raises(BadRequest, match="line 1"):
        orders.publish_many([NewMessage("one", "x" * 300)])
    for name in ("..", "a/b", "", "a?b", "a b"):
        with pytest.raises(InvalidName):
            mq.queue(name)
        with pytest.raises(InvalidName):
            orders.publish("one", message_id=name)

    assert counts(orders) == (0, 0, 0)
