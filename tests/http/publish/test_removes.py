"""`removes`: what is published and the removal of a received message, both or neither."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.config import SMALL_BODY_BYTES
from tests.support.batches import NDJSON, answer_lines
from tests.support.processes import Server
from tests.support.token_files import make_token_file
from tests.support.wire import Wire, WireAnswer, assert_problem, make_queue

UNKNOWN = '"00c0ffee00c0ffee"'


@pytest.fixture
def source(wire: Wire) -> str:
    """The queue of what is removed."""
    return make_queue(wire)


def received(wire: Wire, source: str, body: bytes = b"order") -> tuple[str, str]:
    """Publish and receive a message. Returns its id and its lease."""
    wire.publish(source, body)
    headers = wire.receive(source).headers
    return headers["x-message-id"], headers["etag"]


def hand_over(
    wire: Wire, queue: str, message: str, lease: str, body: bytes = b"bill",
    *, more: str = "",
    **headers: str,
) -> WireAnswer:  # fmt: skip
    target = f"/{queue}/messages?removes={message}{more}"
    return wire.request("POST", target, body, if_match=lease, **headers)


@pytest.mark.parametrize("size", [0, 4, SMALL_BODY_BYTES + 1])
def test_both_happen(wire: Wire, queue: str, source: str, size: int) -> None:
    message_id, lease = received(wire, source)

    answer = hand_over(wire, queue, f"{source}/{message_id}", lease, b"b" * size)

    assert answer.status == 201
    assert wire.count(source) == (0, 0)
    got = wire.receive(queue)
    assert (got.body, got.headers["x-message-id"]) == (
        b"b" * size, answer.headers["x-message-id"]
    )  # fmt: skip
    # Removed under its lease: that is answered as ever.
    assert wire.remove(source, message_id, if_match=lease).status == 202


def test_neither_happens_under_another_lease(wire: Wire, queue: str, source: str) -> None:
    message_id, lease = received(wire, source)

    stale = hand_over(wire, queue, f"{source}/{message_id}", UNKNOWN)

    assert_problem(stale, 412, "lease-mismatch", message_id)
    assert (wire.count(queue), wire.count(source)) == ((0, 0), (0, 1))
    assert hand_over(wire, queue, f"{source}/{message_id}", lease).status == 201


def test_a_message_that_was_released_is_not_removed(wire: Wire, queue: str, source: str) -> None:
    message_id, lease = received(wire, source)
    wire.request("GET", f"/{source}/messages?id={message_id}&visibility=0", if_match=lease)

    answer = hand_over(wire, queue, f"{source}/{message_id}", lease)

    assert_problem(answer, 412, "lease-mismatch", "nothing was published")
    assert (wire.count(queue), wire.count(source)) == ((0, 0), (1, 0))


def test_a_message_that_is_gone_is_named(wire: Wire, queue: str, source: str) -> None:
    message_id, lease = received(wire, source)
    assert hand_over(wire, queue, f"{source}/{message_id}", lease).status == 201

    again = hand_over(wire, queue, f"{source}/{message_id}", lease)
    never = hand_over(wire, queue, f"{source}/never", lease)
    nowhere = hand_over(wire, queue, f"{queue}-missing/{message_id}", lease)

    assert_problem(again, 404, "message-not-found", "was removed already")
    assert_problem(never, 404, "message-not-found", "no message never")
    assert_problem(nowhere, 404, "queue-not-found", f"{queue}-missing")
    assert wire.count(queue) == (1, 0)


def test_with_an_own_id_it_may_be_sent_again(wire: Wire, queue: str, source: str) -> None:
    message_id, lease = received(wire, source)
    answers = [
        hand_over(wire, queue, f"{source}/{message_id}", lease, x_message_id="bill-1")
        for _ in range(2)
    ]

    assert [each.status for each in answers] == [201, 200]
    assert (wire.count(queue), wire.count(source)) == ((1, 0), (0, 0))


def test_what_was_published_before_is_not_twice_and_the_message_goes(
    wire: Wire, queue: str, source: str
) -> None:
    message_id, lease = received(wire, source)
    wire.request("POST", f"/{queue}/messages", b"bill", x_message_id="bill-1")

    stale = hand_over(wire, queue, f"{source}/{message_id}", UNKNOWN, x_message_id="bill-1")
    answer = hand_over(wire, queue, f"{source}/{message_id}", lease, x_message_id="bill-1")

    assert_problem(stale, 412, "lease-mismatch")
    assert answer.status == 200
    assert (wire.count(queue), wire.count(source)) == ((1, 0), (0, 0))


def test_a_message_may_be_rewritten_in_its_queue_but_not_under_its_id(
    wire: Wire, queue: str
) -> None:
    message_id, lease = received(wire, queue)

    same = hand_over(wire, queue, f"{queue}/{message_id}", lease, b"order", x_message_id=message_id)
    other = hand_over(wire, queue, f"{queue}/{message_id}", lease, b"order, once more")

    assert_problem(same, 400, "invalid-request", "another id")
    assert other.status == 201
    assert wire.receive(queue).body == b"order, once more"
    assert wire.receive(queue).status == 204


def test_it_goes_with_batches_copies_and_delays(wire: Wire, queue: str, source: str) -> None:
    second, third = make_queue(wire), make_queue(wire)
    message_id, lease = received(wire, source)
    lines = [{"body": "1"}, {"body": "2", "queue": second}, {"body": "3", "delay": 60}]
    text = b"".join(json.dumps(each).encode() + b"\n" for each in lines)

    answer = hand_over(
        wire, queue, f"{source}/{message_id}", lease, text, more=f"&batch&also={third}",
        content_type=NDJSON,
    )  # fmt: skip

    assert len(answer_lines(answer)) == 3
    assert [wire.count(each) for each in (queue, second, third)] == [(1, 0), (1, 0), (2, 0)]
    assert wire.count(source) == (0, 0)


def test_what_cannot_be_published_removes_nothing(wire: Wire, queue: str, source: str) -> None:
    message_id, lease = received(wire, source)
    full, taken = make_queue(wire), make_queue(wire)
    wire.request("PUT", f"/{full}?max-messages=1")
    wire.publish(full, b"x")
    wire.request("POST", f"/{taken}/messages", b"another", x_message_id="bill-1")

    missing = hand_over(wire, f"{queue}-missing", f"{source}/{message_id}", lease)
    no_room = hand_over(wire, queue, f"{source}/{message_id}", lease, more=f"&also={full}")
    other = hand_over(wire, taken, f"{source}/{message_id}", lease, x_message_id="bill-1")

    assert_problem(missing, 404, "queue-not-found")
    assert no_room.status == 503
    assert_problem(other, 409, "id-taken")
    assert wire.count(queue) == (0, 0)
    assert wire.remove(source, message_id, if_match=lease).status == 202


def test_a_message_of_a_fifo_queue_is_left_to_the_gateway(wire: Wire, queue: str) -> None:
    fifo = f"{queue}.fifo"
    wire.request("PUT", f"/{fifo}")

    answer = hand_over(wire, queue, f"{fifo}/own", UNKNOWN)

    assert_problem(answer, 409, "fifo-queue", "mq-sqs")
    assert wire.count(queue) == (0, 0)


@pytest.mark.parametrize(
    ("removes", "if_match", "what"),
    [
        ("orders", UNKNOWN, "QUEUE/ID"),
        ("orders/", UNKNOWN, "id"),
        ("/own", UNKNOWN, "name"),
        ("orders/own/x", UNKNOWN, "id"),
        ("", UNKNOWN, "QUEUE/ID"),
        ("orders/own", None, "If-Match"),
        ("orders/own", "*", "If-Match"),
        ("orders/own", "own", "If-Match"),
    ],
)
def test_wrong_values_are_refused(
    wire: Wire, queue: str, removes: str, if_match: str | None, what: str
) -> None:
    headers = {} if if_match is None else {"if_match": if_match}

    answer = wire.request("POST", f"/{queue}/messages?removes={removes}", b"bill", **headers)

    assert answer.status == 400
    assert what in json.loads(answer.body)["detail"]
    assert wire.count(queue) == (0, 0)


def test_it_does_not_go_with_a_move(wire: Wire, queue: str, source: str) -> None:
    target = f"/{queue}/messages?from={source}&removes={source}/own"

    assert_problem(wire.request("POST", target), 400, "invalid-request", "'removes'")


def test_a_token_must_be_for_both_queues(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire], tmp_path: Path
) -> None:
    every, bills, both = (f"{letter}1" * 16 for letter in "abc")
    tokens = make_token_file(
        tmp_path,
        f"every read,write,admin {every}",
        f"bills write bills {bills}",
        f"both write bills,orders {both}",
    )
    wire = connect(start_server(f"--token-file={tokens}"))
    for each in ("orders", "bills"):
        wire.request("PUT", f"/{each}", authorization=f"Bearer {every}")
    wire.request("POST", "/orders/messages", b"order", authorization=f"Bearer {every}")
    headers = wire.request("GET", "/orders/messages", authorization=f"Bearer {every}").headers
    message, lease = f"orders/{headers['x-message-id']}", headers["etag"]

    refused = hand_over(wire, "bills", message, lease, authorization=f"Bearer {bills}")
    allowed = hand_over(wire, "bills", message, lease, authorization=f"Bearer {both}")

    assert_problem(refused, 403, "forbidden", "not for orders")
    assert allowed.status == 201
