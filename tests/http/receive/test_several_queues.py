"""4.5 GET /QUEUE/messages?then=OTHER: from the first of several queues that has a message"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime

import pytest

from mq.config import MAX_QUEUES
from tests.support.processes import Server
from tests.support.wire import (
    Wire,
    WireAnswer,
    assert_problem,
    begin_to_wait,
    has_answer,
    make_queue,
    wait_until_closed,
)

Connect = Callable[[Server], Wire]
SIZES = pytest.mark.parametrize("size", [4, 600_000])


@pytest.fixture
def queues(wire: Wire) -> list[str]:
    """Three queues, in the order of their priority."""
    return [make_queue(wire) for _ in range(3)]


def receive(wire: Wire, queues: list[str], more: str = "") -> WireAnswer:
    first, *others = queues
    return wire.request("GET", f"/{first}/messages?then={','.join(others)}{more}")


def lines_of(answer: WireAnswer) -> list[tuple[str, str]]:
    """Return the queue and the id of each message."""
    lines = map(json.loads, answer.body.splitlines())
    return [(line["queue"], line["id"]) for line in lines]


@SIZES
def test_the_first_queue_that_has_a_message_gives_it(
    wire: Wire, queues: list[str], size: int
) -> None:
    ids = [wire.publish(each, b"b" * size) for each in reversed(queues)]

    for queue, message_id in zip(queues, reversed(ids), strict=True):
        answer = receive(wire, queues)

        assert answer.status == 200
        assert answer.headers["x-queue"] == queue
        assert answer.headers["x-message-id"] == message_id
        assert len(answer.body) == size
        assert wire.remove(queue, message_id, if_match=answer.headers["etag"]).status == 202
    assert receive(wire, queues).status == 204


def test_each_request_begins_with_the_first_queue(wire: Wire, queues: list[str]) -> None:
    for _ in range(2):
        wire.publish(queues[1])
    assert receive(wire, queues).headers["x-queue"] == queues[1]

    urgent = wire.publish(queues[0])

    assert receive(wire, queues).headers["x-message-id"] == urgent


def test_queues_are_named_with_commas_or_each_by_itself(wire: Wire, queues: list[str]) -> None:
    first, second, third = queues
    wire.publish(third)
    wire.publish(third)

    for query in (f"then={second}&then={third}", f"then={second}%2C{third},{third},{first}"):
        answer = wire.request("GET", f"/{first}/messages?{query}")
        assert answer.headers["x-queue"] == third


def test_several_messages_are_of_one_queue(wire: Wire, queues: list[str]) -> None:
    ids = [wire.publish(queues[1]) for _ in range(3)]
    last = wire.publish(queues[2])

    assert lines_of(receive(wire, queues, "&max=5")) == [(queues[1], each) for each in ids]
    assert lines_of(receive(wire, queues, "&max=5")) == [(queues[2], last)]
    assert receive(wire, queues, "&max=5").status == 204


def test_only_who_names_several_queues_is_told_which_it_was(wire: Wire, queue: str) -> None:
    for query, is_named in (("", False), ("?visibility=60", False), (f"?then={queue}", True)):
        wire.publish(queue)
        answer = wire.request("GET", f"/{queue}/messages{query}")
        assert answer.status == 200
        assert ("x-queue" in answer.headers) == is_named
    wire.publish(queue)
    assert b'"queue"' not in wire.request("GET", f"/{queue}/messages?max=2").body


def hidden_seconds(answer: WireAnswer) -> float:
    published, visible = (
        datetime.fromisoformat(answer.headers[name]) for name in ("x-published-at", "x-visible-at")
    )
    return (visible - published).total_seconds()


def test_each_queue_has_its_own_visibility(wire: Wire, queues: list[str]) -> None:
    wire.request("PUT", f"/{queues[1]}?visibility=7000")
    for queue in (queues[1], queues[1], queues[2]):
        wire.publish(queue)

    assert hidden_seconds(receive(wire, queues)) > 6000
    assert 400 < hidden_seconds(receive(wire, queues, "&visibility=500")) < 1000
    assert hidden_seconds(receive(wire, queues)) < 300


def test_a_paused_queue_has_nothing(wire: Wire, queues: list[str]) -> None:
    wire.publish(queues[0])
    wire.publish(queues[1])
    wire.request("PUT", f"/{queues[0]}?paused=true")

    assert receive(wire, queues).headers["x-queue"] == queues[1]
    assert receive(wire, queues).status == 204

    wire.request("PUT", f"/{queues[0]}?paused=false")
    assert receive(wire, queues).headers["x-queue"] == queues[0]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_publish_to_any_of_them_wakes_who_waits(
    server: Server, connect: Connect, queues: list[str], at: int
) -> None:
    wire, waiter = connect(server), connect(server)
    begin_to_wait(server, waiter, queues[0], f"&then={queues[1]}&then={queues[2]}")

    message_id = wire.publish(queues[at])

    answer = waiter.answer()
    assert answer.headers["x-message-id"] == message_id
    assert answer.headers["x-queue"] == queues[at]
    assert answer.headers["x-receive-count"] == "1"


def test_one_who_waits_longer_comes_first_in_each_line(
    server: Server, wire: Wire, connect: Connect, queues: list[str]
) -> None:
    waiters = [connect(server) for _ in range(4)]
    begin_to_wait(server, waiters[0], queues[1])
    begin_to_wait(server, waiters[1], queues[0], f"&then={queues[1]}")
    begin_to_wait(server, waiters[2], queues[1])
    begin_to_wait(server, waiters[3], queues[0])

    for waiter, queue in zip(waiters, [queues[1], queues[1], queues[1], queues[0]], strict=True):
        message_id = wire.publish(queue)
        assert waiter.answer().headers["x-message-id"] == message_id


def test_one_who_leaves_takes_no_message_of_any(
    server: Server, wire: Wire, connect: Connect, queues: list[str]
) -> None:
    waiter = connect(server)
    begin_to_wait(server, waiter, queues[0], f"&then={queues[1]}")
    port = waiter.local_port
    waiter.close()
    wait_until_closed(server, port)

    for queue in queues[:2]:
        message_id = wire.publish(queue)
        answer = wire.receive(queue)
        assert answer.headers["x-message-id"] == message_id
        assert answer.headers["x-receive-count"] == "1"


def test_a_queue_that_is_missing_is_404_once_it_is_looked_into(
    wire: Wire, queues: list[str]
) -> None:
    first, second, missing = queues
    wire.request("DELETE", f"/{missing}")
    wire.publish(second)

    assert receive(wire, queues).headers["x-queue"] == second
    assert_problem(receive(wire, queues), 404, "queue-not-found", missing)
    assert_problem(receive(wire, [missing, first]), 404, "queue-not-found", missing)


def test_a_queue_that_is_deleted_lets_all_go_who_wait_for_it(
    server: Server, wire: Wire, connect: Connect, queues: list[str]
) -> None:
    gone, other = connect(server), connect(server)
    begin_to_wait(server, other, queues[0])
    begin_to_wait(server, gone, queues[0], f"&then={queues[1]}")

    wire.request("DELETE", f"/{queues[1]}")

    assert_problem(gone.answer(), 404, "queue-not-found", queues[1])
    assert not has_answer(other)
    message_id = wire.publish(queues[0])
    assert other.answer().headers["x-message-id"] == message_id


def test_a_server_that_stops_lets_all_go(
    start_server: Callable[..., Server], connect: Connect
) -> None:
    server = start_server()
    wire, waiter = connect(server), connect(server)
    first, second = make_queue(wire), make_queue(wire)
    begin_to_wait(server, waiter, first, f"&then={second}")

    assert server.stop() == 0

    assert waiter.answer().status == 204


def test_who_waits_for_several_gets_each_message_once(
    server: Server, wire: Wire, connect: Connect, queues: list[str]
) -> None:
    """Many wait for the same queues, named in every order, beside some that wait for one. Of each
    queue there are enough messages for all who name it, whatever those with a choice take."""
    orders = [queues, queues[::-1], [queues[1], queues[2], queues[0]], queues[:1], queues[1:2]]
    waiters = [connect(server) for _ in range(40)]
    for number, waiter in enumerate(waiters):
        first, *others = orders[number % len(orders)]
        begin_to_wait(server, waiter, first, f"&then={','.join(others)}" if others else "")

    ids = [wire.publish(queues[number % 2]) for number in range(64)]
    answers = [waiter.answer() for waiter in waiters]
    answers += [wire.receive(queues[number % 2]) for number in range(64)]
    received = [each for each in answers if each.status == 200]

    assert {each.headers["x-receive-count"] for each in received} == {"1"}
    assert sorted(each.headers["x-message-id"] for each in received) == sorted(ids)


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("then=", "queue name"),
        ("then=usual,", "queue name"),
        ("then=a%2Fb", "a/b"),
        ("then=usual&id=1", "then"),
        ("then=usual&peek", "then"),
        ("then=usual&wait=1&wait=2", "wait"),
        ("then=" + ",".join(f"q{each}" for each in range(MAX_QUEUES)), "65 queues"),
    ],
)
def test_what_names_no_queues_is_400(wire: Wire, queue: str, query: str, named: str) -> None:
    wire.publish(queue)

    answer = wire.request("GET", f"/{queue}/messages?{query}")

    assert answer.status == 400
    assert named in answer.json()["detail"]
    assert wire.count(queue) == (1, 0)


def test_as_many_queues_as_the_limit_says(wire: Wire, queue: str) -> None:
    others = [make_queue(wire) for _ in range(MAX_QUEUES - 1)]
    message_id = wire.publish(others[-1])

    assert receive(wire, [queue, *others]).headers["x-message-id"] == message_id
    for each in others:
        wire.request("DELETE", f"/{each}")
