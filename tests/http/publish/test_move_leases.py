"""Moves under a lease, and what dead letters say of themselves."""

from __future__ import annotations

import pytest

from tests.support.batches import outcomes_in
from tests.support.moves import move, moved
from tests.support.wire import Wire, assert_problem

UNKNOWN = '"00c0ffee00c0ffee"'


# Leases


def test_dead_now_under_its_lease(wire: Wire, queue: str, source: str) -> None:
    message_id = wire.publish(source)
    lease = wire.receive(source).headers["etag"]
    query = f"&id={message_id}&reason=bad%20address"

    stale = move(wire, queue, source, query, if_match=UNKNOWN)
    assert_problem(stale, 412, "lease-mismatch", message_id)
    assert wire.count(source) == (0, 1)
    assert moved(move(wire, queue, source, query, if_match=lease)) == 1

    assert_problem(wire.remove(source, message_id, if_match=lease), 404, "message-not-found")
    told = wire.receive(queue).headers
    assert (told["x-dead-from"], told["x-dead-reason"]) == (source, "bad address")


def test_several_leases_move_the_messages_that_have_them(
    wire: Wire, queue: str, source: str
) -> None:
    taken = {wire.publish(source): "" for _ in range(3)}
    for _ in range(3):
        headers = wire.receive(source).headers
        taken[headers["x-message-id"]] = headers["etag"]
    first, second, third = taken
    guard = f"{taken[first]}, {taken[third]}"

    answer = move(wire, queue, source, f"&id={first},{second},{third}", if_match=guard)

    assert [line["status"] for line in outcomes_in(answer)] == [200, 412, 200]
    assert wire.count(queue) == (2, 0)
    assert wire.count(source) == (0, 1)


def test_any_lease_is_one_but_none_is_not(wire: Wire, queue: str, source: str) -> None:
    message_id = wire.publish(source)

    without = move(wire, queue, source, f"&id={message_id}", if_match="*")
    wire.receive(source)
    under_one = move(wire, queue, source, f"&id={message_id}", if_match="*")

    assert_problem(without, 412, "lease-mismatch")
    assert moved(under_one) == 1


def test_a_worker_that_lost_its_message_to_a_move_is_told(
    wire: Wire, queue: str, source: str
) -> None:
    message_id = wire.publish(source)
    lease = wire.receive(source).headers["etag"]
    move(wire, queue, source, f"&id={message_id}")

    beat = wire.request("GET", f"/{source}/messages?id={message_id}&visibility=9", if_match=lease)

    assert_problem(beat, 404, "message-not-found")
    assert_problem(wire.remove(source, message_id, if_match=lease), 404, "message-not-found")
    assert wire.count(queue) == (1, 0)


# Dead letters


def test_a_dead_letter_says_where_it_is_from_in_all_that_shows_it(
    wire: Wire, queue: str, source: str
) -> None:
    message_id = wire.publish(source)
    assert moved(move(wire, queue, source, "&reason=because")) == 1

    for target in (f"?peek&id={message_id}", "?peek", f"?id={message_id}"):
        told = wire.request("GET", f"/{queue}/messages{target}").headers
        assert (told["x-dead-from"], told["x-dead-reason"]) == (source, "because")
        wire.request("GET", f"/{queue}/messages?id={message_id}&visibility=0")
    for target in ("?peek&max=5", "?max=5"):
        line = wire.request("GET", f"/{queue}/messages{target}").json()
        assert (line["dead_from"], line["dead_reason"]) == (source, "because")


def test_a_message_moved_without_a_reason_is_no_dead_letter(
    wire: Wire, queue: str, source: str
) -> None:
    wire.publish(source)
    move(wire, queue, source)

    line = wire.request("GET", f"/{queue}/messages?peek&max=1").json()
    told = wire.receive(queue).headers

    assert not {"dead_from", "dead_reason"} & line.keys()
    assert not {"x-dead-from", "x-dead-reason"} & told.keys()


def test_a_redriven_message_is_not_dead_any_more(wire: Wire, queue: str, source: str) -> None:
    message_id = wire.publish(source)
    move(wire, queue, source, "&reason=because")

    assert moved(move(wire, source, queue)) == 1

    assert "x-dead-from" not in wire.receive(source).headers
    move(wire, queue, source, f"&id={message_id}")
    assert "x-dead-from" not in wire.receive(queue).headers


@pytest.mark.parametrize("reason", ["", "%0d%0aX-Evil:%201", "caf%C3%A9", "x" * 256, "%20x"])
def test_a_reason_that_no_header_can_carry(
    wire: Wire, queue: str, source: str, reason: str
) -> None:
    wire.publish(source)

    answer = move(wire, queue, source, f"&reason={reason}")

    assert_problem(answer, 400, "invalid-request", "reason")
    assert wire.count(source) == (1, 0)
