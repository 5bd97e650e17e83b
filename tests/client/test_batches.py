"""Many at once."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from mq.client import (
    BodyTooLarge,
    Client,
    IdTaken,
    LeaseLost,
    MessageNotFound,
    NewMessage,
    Queue,
    TooOld,
    Unavailable,
)
from mq.config import MAX_BATCH_BYTES
from tests.support.faces import counts, new_queue, receive_now
from tests.support.messages import pass_a_tick
from tests.support.processes import Server


def test_many_messages_are_published_in_order(orders: Queue) -> None:
    """More than one batch takes, of bodies of both kinds."""
    bodies = [b"%d" % number + b"\xff" * (number % 2) for number in range(1500)]

    ids = orders.publish_many(body for body in bodies)

    assert ids == sorted(set(ids))
    found = orders.receive_many(1000) + orders.receive_many(1000)
    assert [message.id for message in found] == ids
    assert [message.body for message in found] == bodies


def test_a_move_of_several_into_a_full_queue_returns_those_that_stay(
    server: Server, connect_client: Callable[..., Client], orders: Queue
) -> None:
    full = new_queue(connect_client(server.url, retry_seconds=0))
    full.create(settings={"max-messages": 1})
    one, *others = orders.publish_many(["1", "2", "3"])

    failed = full.move_many(orders.name, [one, *others])

    assert {each: type(error) for each, error in failed.items()} == dict.fromkeys(
        others, Unavailable
    )
    with pytest.raises(Unavailable, match="max-messages"):
        full.move_many(orders.name, others[:1])


def test_what_a_queue_would_remove_at_once_is_not_moved_there(mq: Client, orders: Queue) -> None:
    brief = new_queue(mq)
    brief.create(settings={"ttl": 0.000001})
    ids = orders.publish_many(["1", "2"])
    pass_a_tick()

    with pytest.raises(TooOld, match="ttl"):
        brief.move(orders.name)
    with pytest.raises(TooOld):
        receive_now(orders).move(brief.name)
    for some in (ids[:1], ids):
        failed = brief.move_many(orders.name, some)
        assert {each: type(error) for each, error in failed.items()} == dict.fromkeys(some, TooOld)


def test_none_at_all_is_fine(orders: Queue) -> None:
    assert orders.publish_many([]) == []


def test_each_message_of_many_has_its_own_type_delay_and_id(orders: Queue) -> None:
    ids = orders.publish_many(
        [
            NewMessage("{}", "application/json"),
            NewMessage("later", delay=600, message_id="a-1"),
            b"b",
        ]
    )

    assert ids[1] == "a-1"
    assert counts(orders) == (2, 0, 1)
    assert [message.content_type for message in orders.receive_many(10)] == [
        "application/json",
        "application/octet-stream",
    ]


def test_what_is_too_large_for_a_batch_goes_by_itself_in_its_place(orders: Queue) -> None:
    large = os.urandom(MAX_BATCH_BYTES)

    ids = orders.publish_many([b"before", large, b"after"])

    assert [each.id for each in orders.peek(10)][:1] == ids[:1]
    before, middle, after = (message for _ in ids for message in orders.receive_many(1))
    assert [before.id, middle.id, after.id] == ids
    assert (middle.body == large) is True


def test_many_that_are_published_again_under_their_ids_come_once(orders: Queue) -> None:
    messages = [NewMessage(f"{number}", message_id=f"id-{number}") for number in range(10)]

    orders.publish_many(messages[:7])
    ids = orders.publish_many(messages)

    assert ids == [f"id-{number}" for number in range(10)]
    assert counts(orders) == (10, 0, 0)


def test_a_batch_that_is_refused_publishes_nothing(orders: Queue) -> None:
    orders.publish("other", message_id="taken")

    with pytest.raises(IdTaken, match="line 2"):
        orders.publish_many(["one", NewMessage("two", message_id="taken")])

    assert counts(orders) == (1, 0, 0)


def test_every_message_received_together_has_its_own_lease(orders: Queue) -> None:
    orders.publish_many(["one", "two", "three"])

    one, two, three = orders.receive_many(10, visibility=60)

    one.ack()
    two.release()
    three.extend(5)
    assert counts(orders) == (1, 1, 0)
    assert orders.receive_many(10)[0].id == two.id


def test_many_are_acknowledged_together_but_those_whose_lease_is_not_the_current_one(
    orders: Queue,
) -> None:
    orders.publish_many([str(number) for number in range(450)])
    received = orders.receive_many(1000, visibility=60)
    lost, gone = received[7], received[300]
    orders.remove(gone.id)
    leases = {each.id: each.lease for each in received}

    failed = orders.ack_many(leases | {lost.id: "0" * 16, "never-published": "0" * 16})

    assert {each: type(error) for each, error in failed.items()} == {
        lost.id: LeaseLost, "never-published": MessageNotFound,
    }  # fmt: skip
    assert counts(orders) == (0, 1, 0)
    assert list(orders.ack_many({lost.id: "0" * 16})) == [lost.id]
    assert orders.ack_many({lost.id: lost.lease}) == {}
    assert orders.ack_many({}) == {}
    assert counts(orders) == (0, 0, 0)


def test_long_ids_are_acknowledged_in_requests_that_the_server_takes(orders: Queue) -> None:
    orders.publish_many([NewMessage("x", message_id=f"{n:064}") for n in range(300)])

    leases = {each.id: each.lease for each in orders.receive_many(1000, visibility=60)}

    assert len(leases) == 300
    assert orders.ack_many(leases) == {}
    assert counts(orders) == (0, 0, 0)


def test_a_body_over_the_limit_is_refused_and_the_connection_goes_on(
    start_server: Callable[..., Server], connect_client: Callable[..., Client]
) -> None:
    orders = new_queue(connect_client(start_server("--max-body=1MiB").url, retry_seconds=0))

    for body in (os.urandom(1024 * 1024 + 1), os.urandom(40 * 1024 * 1024)):
        with pytest.raises(BodyTooLarge) as caught:
            orders.publish(body)
        assert caught.value.problem is not None
        assert caught.value.problem.status == 413
    orders.publish(b"b" * 1024 * 1024)

    assert counts(orders) == (1, 0, 0)


def test_a_peek_goes_on_behind_a_message(orders: Queue) -> None:
    ids = orders.publish_many(["one", "two", "three", "four"])

    assert [each.id for each in orders.peek(2, after=ids[0])] == ids[1:3]
    assert orders.peek(10, after=ids[3]) == []
    with pytest.raises(MessageNotFound):
        orders.peek(after="unheard-of")
