"""A full queue answers for the messages that it has, however they are sent again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.batches import answer_lines, send_lines
from tests.support.wire import Wire, WireAnswer, assert_problem, request_bytes

MOST = 3
LARGE = b"b" * 600_000


@pytest.fixture
def limited(wire: Wire, queue: str) -> str:
    wire.request("PUT", f"/{queue}?max-messages={MOST}")
    return queue


def numbered(*numbers: int, body: str = "b") -> list[dict[str, str]]:
    return [{"id": f"id-{n}", "body": body} for n in numbers]


@pytest.mark.parametrize("body", ["b", LARGE.decode()], ids=["small", "large"])
def test_a_batch_that_filled_the_queue_is_200_when_it_is_sent_again(
    wire: Wire, limited: str, body: str
) -> None:
    lines = numbered(0, 1, 2, body=body)
    assert send_lines(wire, limited, *lines).status == 201

    again = send_lines(wire, limited, *lines)

    assert again.status == 200
    assert answer_lines(again) == [{"id": f"id-{n}", "duplicate": True} for n in range(3)]
    assert wire.count(limited) == (3, 0)


def test_a_batch_is_200_again_when_the_limit_is_lower_by_then(wire: Wire, limited: str) -> None:
    lines = numbered(0, 1, 2)
    send_lines(wire, limited, *lines)
    wire.request("PUT", f"/{limited}?max-messages=1")

    assert send_lines(wire, limited, *lines).status == 200


def test_only_the_new_messages_of_a_batch_need_room(wire: Wire, limited: str) -> None:
    send_lines(wire, limited, *numbered(0, 1))

    refused = send_lines(wire, limited, *numbered(0, 1, 2, 3))
    taken = send_lines(wire, limited, *numbered(0, 1, 2, 2))

    told = "which leaves no room for 2 more"
    assert_problem(refused, 503, "unavailable", told)
    assert taken.status == 201
    assert wire.count(limited) == (3, 0)
    assert_problem(send_lines(wire, limited, {"body": "b"}), 503, "unavailable")


def sent_whole(wire: Wire, queue: str) -> WireAnswer:
    return wire.request("POST", f"/{queue}/messages", LARGE, x_message_id="large")


def sent_after_100(wire: Wire, queue: str) -> WireAnswer:
    head = {"x_message_id": "large", "expect": "100-continue", "content_length": str(len(LARGE))}
    wire.send(request_bytes("POST", f"/{queue}/messages", **head))
    assert wire.answer().status == 100
    wire.send(LARGE)
    return wire.answer()


@pytest.mark.parametrize("send_again", [sent_whole, sent_after_100])
def test_a_large_message_that_filled_the_queue_is_200_when_it_is_sent_again(
    wire: Wire, limited: str, send_again: Callable[[Wire, str], WireAnswer]
) -> None:
    assert sent_whole(wire, limited).status == 201
    for _ in range(MOST - 1):
        wire.publish(limited)

    assert send_again(wire, limited).status == 200
    assert wire.count(limited) == (3, 0)
