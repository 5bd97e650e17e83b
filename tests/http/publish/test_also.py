"""POST /QUEUE/messages?also=OTHER: one message for several queues, in all of them or in none"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from mq.config import MAX_BATCH_BYTES, MAX_BATCH_LINES, MAX_QUEUES
from tests.support.batches import NDJSON, answer_lines, ids_of
from tests.support.processes import Server
from tests.support.wire import Wire, WireAnswer, assert_problem, files_of, make_queue

SIZES = pytest.mark.parametrize("size", [4, 200_000, 1_000_000])


@pytest.fixture
def queues(wire: Wire) -> list[str]:
    return [make_queue(wire) for _ in range(3)]


def publish(
    wire: Wire, queues: list[str], body: bytes = b"two coffees", more: str = "", **headers: str
) -> WireAnswer:
    first, *others = queues
    also = f"?also={','.join(others)}" if others else ""
    target = f"/{first}/messages{also}{more}"
    return wire.request("POST", target, body, **headers)


def publish_lines(wire: Wire, queues: list[str], *lines: Any) -> WireAnswer:
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return publish(wire, queues, text, "&batch", content_type=NDJSON)


def counts(wire: Wire, queues: list[str]) -> list[tuple[int, int]]:
    return [wire.count(each) for each in queues]


@SIZES
def test_each_queue_gets_the_message(wire: Wire, queues: list[str], size: int) -> None:
    body = b"b" * size

    answer = publish(wire, queues, body, content_type="text/x-bill", x_meta_shop="north")

    assert answer.status == 201
    message_id = answer.headers["x-message-id"]
    assert answer.headers["location"] == f"/{queues[0]}/messages/{message_id}"
    for each in queues:
        received = wire.receive(each)
        assert received.headers["x-message-id"] == message_id
        assert received.headers["content-type"] == "text/x-bill"
        assert received.headers["x-meta-shop"] == "north"
        assert received.body == body
        assert wire.receive(each).status == 204


def test_each_copy_goes_its_own_way(wire: Wire, queues: list[str]) -> None:
    message_id = publish(wire, queues).headers["x-message-id"]
    first, second, third = queues

    assert wire.remove(first, message_id).status == 202
    etag = wire.receive(second).headers["etag"]

    assert counts(wire, queues) == [(0, 0), (0, 1), (1, 0)]
    assert wire.remove(second, message_id, if_match=etag).status == 202
    assert wire.receive(third).headers["x-receive-count"] == "1"


def test_queues_are_named_with_commas_or_each_by_itself(wire: Wire, queues: list[str]) -> None:
    first, second, third = queues
    for query in (f"also={second}&also={third}", f"also={second}%2C{third},{third},{first}"):
        assert wire.request("POST", f"/{first}/messages?{query}", b"x").status == 201

    assert counts(wire, queues) == [(2, 0)] * 3


def test_the_order_of_each_queue_is_that_of_its_publishes(wire: Wire, queues: list[str]) -> None:
    first, second, third = queues
    expected: dict[str, list[str]] = {each: [] for each in queues}
    for number in range(12):
        some = [[first], [second, first], [third, first, second], [second]][number % 4]
        message_id = publish(wire, some, b"%d" % number).headers["x-message-id"]
        for each in some:
            expected[each].append(message_id)

    for queue, ids in expected.items():
        assert [wire.receive(queue).headers["x-message-id"] for _ in ids] == ids


def test_none_gets_it_if_one_is_missing(server: Server, wire: Wire, queues: list[str]) -> None:
    missing = queues.pop()
    wire.request("DELETE", f"/{missing}")

    for some in ([*queues, missing], [missing, *queues]):
        assert_problem(publish(wire, some), 404, "queue-not-found", missing)
        assert_problem(publish_lines(wire, some, {"body": "x"}), 404, "queue-not-found", missing)

    assert counts(wire, queues) == [(0, 0)] * 2
    assert [files_of(server, each) for each in queues] == [[], []]


def test_none_gets_it_if_one_is_full(wire: Wire, queues: list[str]) -> None:
    wire.request("PUT", f"/{queues[1]}?max-messages=1")
    assert publish(wire, queues).status == 201

    assert_problem(publish(wire, queues), 503, "unavailable", queues[1])

    assert counts(wire, queues) == [(1, 0)] * 3


def test_none_gets_it_if_one_is_a_fifo_queue(wire: Wire, queues: list[str]) -> None:
    fifo = f"{queues[0]}.fifo"
    wire.request("PUT", f"/{fifo}")

    assert_problem(publish(wire, [*queues, fifo]), 409, "fifo-queue", fifo)

    assert counts(wire, [*queues, fifo]) == [(0, 0)] * 4


def test_the_delay_is_that_of_the_request_or_of_each_queue(wire: Wire, queues: list[str]) -> None:
    wire.request("PUT", f"/{queues[1]}?delay=3600")

    answer = publish(wire, queues)
    assert "x-visible-at" not in answer.headers
    assert counts(wire, queues) == [(1, 0), (0, 0), (1, 0)]
    assert wire.request("GET", f"/{queues[1]}").json()["delayed"] == 1

    answer = publish(wire, queues, more="&delay=3600")
    assert "x-visible-at" in answer.headers
    assert [wire.request("GET", f"/{each}").json()["delayed"] for each in queues] == [1, 2, 1]


def test_an_own_id_is_published_once_to_each_queue(wire: Wire, queues: list[str]) -> None:
    assert publish(wire, queues[:2], x_message_id="own").status == 201
    assert publish(wire, queues, x_message_id="own").status == 201
    assert counts(wire, queues) == [(1, 0)] * 3
    assert wire.remove(queues[1], "own").status == 202

    answer = publish(wire, queues, x_message_id="own")

    assert answer.status == 200
    assert answer.headers["x-message-id"] == "own"
    assert counts(wire, queues) == [(1, 0), (0, 0), (1, 0)]


def test_none_gets_it_if_one_has_another_message_under_the_id(
    wire: Wire, queues: list[str]
) -> None:
    wire.publish(queues[1], b"tea", x_message_id="own")

    answer = publish(wire, queues, x_message_id="own")

    assert_problem(answer, 409, "id-taken", f"queue {queues[1]}: message own")
    lines = publish_lines(wire, queues, {"body": "x"}, {"body": "x", "id": "own"})
    assert_problem(lines, 409, "id-taken", f"queue {queues[1]}: line 2: message own")
    assert counts(wire, queues) == [(0, 0), (1, 0), (0, 0)]


def test_each_line_of_a_batch_goes_to_each_queue(wire: Wire, queues: list[str]) -> None:
    wire.publish(queues[2], b"b", x_message_id="own")
    lines = [{"body": "a"}, {"body": "b", "id": "own"}, {"body": "b", "id": "own"}]

    answer = publish_lines(wire, queues, *lines)

    assert answer.status == 201
    first, second, third = answer_lines(answer)
    assert (second, third) == ({"id": "own"}, {"id": "own", "duplicate": True})
    for each, ids in zip(queues, [[first["id"], "own"]] * 2 + [["own", first["id"]]], strict=True):
        assert [wire.receive(each).headers["x-message-id"] for _ in ids] == ids
        assert wire.receive(each).status == 204
    again = publish_lines(wire, queues, lines[1])
    assert (again.status, answer_lines(again)) == (200, [{"id": "own", "duplicate": True}])


@pytest.mark.parametrize("number", [1, 100, 333])
def test_batches_of_every_size(wire: Wire, queues: list[str], number: int) -> None:
    answer = publish_lines(wire, queues, *({"body": f"{at}"} for at in range(number)))

    ids = ids_of(answer)
    assert counts(wire, queues) == [(number, 0)] * 3
    for each in queues:
        got = wire.request("GET", f"/{each}/messages?max=1000").body.splitlines()
        assert [json.loads(line)["id"] for line in got] == ids


@pytest.mark.parametrize("more", ["", "&batch"])
def test_a_missing_queue_is_found_before_the_body_is_asked_for(
    wire: Wire, queue: str, more: str
) -> None:
    head = f"POST /{queue}/messages?also=absent{more} HTTP/1.1\r\nHost: mq\r\nContent-Length: 9\r\n"
    wire.send(f"{head}Content-Type: {NDJSON}\r\nExpect: 100-continue\r\n\r\n".encode())

    assert_problem(wire.answer(), 404, "queue-not-found", "absent")


def test_copies_count_into_the_limit_of_a_batch(wire: Wire, queues: list[str]) -> None:
    lines = [{"body": ""}] * (MAX_BATCH_LINES // 3 + 1)

    assert_problem(publish_lines(wire, queues, *lines), 413, "body-too-large", "333 messages for 3")

    assert counts(wire, queues) == [(0, 0)] * 3


def test_a_body_may_be_larger_than_a_batch(wire: Wire, queues: list[str]) -> None:
    body = random.Random(1).randbytes(MAX_BATCH_BYTES + 1)

    assert publish(wire, queues, body, x_meta_shop="north").status == 201

    for each in queues:
        received = wire.receive(each)
        assert received.body == body
        assert received.headers["x-meta-shop"] == "north"


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("also=", "queue name"),
        ("also=usual,", "queue name"),
        ("also=a%2Fb", "a/b"),
        ("also=usual&delay=1&delay=2", "delay"),
        ("also=usual&from=usual", "do not go together"),
        ("also=" + ",".join(f"q{each}" for each in range(MAX_QUEUES)), "65 queues"),
    ],
)
def test_what_names_no_queues_is_400(wire: Wire, queue: str, query: str, named: str) -> None:
    answer = wire.request("POST", f"/{queue}/messages?{query}", b"x")

    assert answer.status == 400
    assert named in answer.json()["detail"]
    assert wire.count(queue) == (0, 0)


def test_as_many_queues_as_the_limit_says(wire: Wire, queue: str) -> None:
    others = [make_queue(wire) for _ in range(MAX_QUEUES - 1)]

    assert publish(wire, [queue, *others]).status == 201

    assert counts(wire, [queue, *others]) == [(1, 0)] * MAX_QUEUES
    for each in others:
        wire.request("DELETE", f"/{each}")


def test_who_waits_for_any_of_them_is_woken(
    server: Server, connect: Callable[[Server], Wire], queues: list[str]
) -> None:
    waiters = [connect(server) for _ in queues]
    for waiter, queue in zip(waiters, queues, strict=True):
        waiter.send(f"GET /{queue}/messages?wait=20 HTTP/1.1\r\nHost: mq\r\n\r\n".encode())

    message_id = publish(connect(server), queues).headers["x-message-id"]

    assert [each.answer().headers["x-message-id"] for each in waiters] == [message_id] * 3
