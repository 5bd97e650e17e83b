"""Several queues: the first that has a message gives it, and all get what is published to all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from mq.client import Client, Message, NewMessage, Queue, QueueNotFound
from mq.config import MAX_BATCH_BYTES
from mq.errors import InvalidName
from tests.support.faces import Running, counts, new_queue
from tests.support.processes import wait_until


@pytest.fixture
def urgent(mq: Client) -> Queue:
    return new_queue(mq)


def test_readers_get_copies_by_a_setting(mq: Client, urgent: Queue, orders: Queue) -> None:
    bills = new_queue(mq)

    orders.create({"also": [urgent.name, bills.name]})

    orders.publish("one tea")
    assert [counts(each)[0] for each in (orders, urgent, bills)] == [1, 1, 1]
    assert orders.settings() == {"also": f"{urgent.name},{bills.name}"}
    orders.create(orders.settings())
    orders.create({"also": []})
    assert orders.settings() == {}


def test_the_message_says_which_queue_it_is_in(urgent: Queue, orders: Queue) -> None:
    orders.publish("one tea")
    urgent.publish("the bill")

    for queue, text in ((urgent, "the bill"), (orders, "one tea")):
        message = urgent.receive(then=[orders.name])
        assert message is not None
        assert (message.queue, message.text()) == (queue.name, text)
        message.extend(600)
        message.ack()
        assert counts(queue) == (0, 0, 0)
    assert urgent.receive(then=[orders.name], wait=0.01) is None


def test_several_messages_are_settled_in_their_queue(urgent: Queue, orders: Queue) -> None:
    orders.publish_many(["one", "two", "three"])

    found = urgent.receive_many(9, then=[orders.name])

    assert [each.text() for each in found] == ["one", "two", "three"]
    assert {each.queue for each in found} == {orders.name}
    found[0].release()
    found[1].move(urgent.name)
    assert orders.ack_many({found[2].id: found[2].lease}) == {}
    assert (counts(urgent), counts(orders)) == ((1, 0, 0), (1, 0, 0))


def test_messages_come_in_the_order_of_the_queues(urgent: Queue, orders: Queue) -> None:
    for number in range(3):
        orders.publish(f"usual {number}")
        urgent.publish(f"urgent {number}")

    got = [each.text() for each in urgent.messages(wait=0, then=[orders.name, urgent.name])]

    assert got == [f"{kind} {number}" for kind in ("urgent", "usual") for number in range(3)]


def test_a_worker_takes_the_urgent_ones_first(
    urgent: Queue, orders: Queue, work: Callable[..., Running]
) -> None:
    orders.publish_many(["usual", "usual"])
    got: list[tuple[str, str]] = []

    def handle(message: Message) -> None:
        got.append((message.queue, message.text()))
        if len(got) == 1:
            urgent.publish("urgent")

    running = work(urgent, handle, then=[orders.name])
    wait_until(lambda: len(got) == 3)
    running.stop()

    assert got == [(orders.name, "usual"), (urgent.name, "urgent"), (orders.name, "usual")]
    assert (counts(urgent), counts(orders)) == ((0, 0, 0), (0, 0, 0))


def test_a_missing_queue_ends_a_worker(urgent: Queue, work: Callable[..., Running]) -> None:
    running = work(urgent, lambda message: None, then=["absent"])
    running.wait()

    assert isinstance(running.error, QueueNotFound)
    assert "absent" in str(running.error)


@pytest.mark.parametrize(
    ("then", "error"),
    [("usual", TypeError), (3, TypeError), ([3], TypeError), (["a/b"], InvalidName)],
)
def test_what_names_no_queues_is_refused(urgent: Queue, then: Any, error: type[Exception]) -> None:
    urgent.publish("kept")
    for receive in (urgent.receive, partial(urgent.receive_many, 2), partial(urgent.worker, print)):
        with pytest.raises(error, match=r"then|a/b"):
            receive(then=then)
    assert counts(urgent) == (1, 0, 0)


def test_a_message_goes_to_all_queues(urgent: Queue, orders: Queue) -> None:
    sent = [
        orders.publish("tea", content_type="text/x-bill", also=[urgent.name, orders.name]),
        orders.publish("cake", message_id="own", properties={"x-meta-shop": "north"},
                       also=[urgent.name]),
        *orders.publish_many(["one", NewMessage("two", message_id="two")], also=[urgent.name]),
    ]  # fmt: skip
    assert orders.publish("cake", message_id="own", properties={"x-meta-shop": "north"},
                          also=[urgent.name]) == "own"  # fmt: skip

    for queue in (orders, urgent):
        found = queue.receive_many(9)
        assert [each.id for each in found] == sent
        assert [each.text() for each in found] == ["tea", "cake", "one", "two"]
        assert found[0].content_type == "text/x-bill"
        assert found[1].properties == {"x-meta-shop": "north"}


def test_batches_for_several_queues_are_smaller(urgent: Queue, orders: Queue) -> None:
    """The server counts the copies."""
    sent = orders.publish_many([b"x"] * 600, also=[urgent.name])

    assert len(set(sent)) == 600
    assert (counts(orders), counts(urgent)) == ((600, 0, 0), (600, 0, 0))


def test_messages_of_a_batch_may_name_queues_of_their_own(urgent: Queue, orders: Queue) -> None:
    """All are published, or none; but one that is too large for a batch goes by itself."""
    large = b"x" * (MAX_BATCH_BYTES + 1)
    messages = [
        NewMessage("order", message_id="1"),
        NewMessage("mail", message_id="2", queue=urgent.name),
        NewMessage(large, message_id="3", queue=urgent.name),
    ]
    with pytest.raises(QueueNotFound, match="absent"):
        orders.publish_many([*messages[:2], NewMessage("x", queue="absent")])
    assert (counts(orders), counts(urgent)) == ((0, 0, 0), (0, 0, 0))

    assert orders.publish_many(messages) == ["1", "2", "3"]

    assert [each.text() for each in orders.receive_many(9)] == ["order"]
    assert [each.body for each in urgent.receive_many(9)] == [b"mail"]
    assert [each.body for each in urgent.receive_many(9)] == [large]
    with pytest.raises(TypeError, match="queue"):
        orders.publish_many([NewMessage("x", queue=cast(str, 5))])


def test_none_gets_it_if_one_queue_is_missing(orders: Queue) -> None:
    for publish in (orders.publish, lambda body, **more: orders.publish_many([body], **more)):
        with pytest.raises(QueueNotFound, match="absent"):
            publish("tea", also=["absent"])
    assert counts(orders) == (0, 0, 0)


@pytest.mark.parametrize(
    ("also", "error"),
    [("usual", TypeError), (3, TypeError), ([3], TypeError), (["a/b"], InvalidName)],
)
def test_what_names_no_queues_to_publish_to_is_refused(
    orders: Queue, also: Any, error: type[Exception]
) -> None:
    for publish in (partial(orders.publish, "x"), partial(orders.publish_many, ["x"])):
        with pytest.raises(error, match=r"also|a/b"):
            publish(also=also)
    assert counts(orders) == (0, 0, 0)
