"""POST /QUEUE/messages?from=SOURCE of messages that are older than the ttl of QUEUE."""

from __future__ import annotations

import pytest

from tests.support.batches import outcomes_in
from tests.support.messages import pass_a_tick
from tests.support.moves import move, moved
from tests.support.wire import Wire, assert_problem

AT_ONCE = "ttl=0.000001"


def test_what_the_queue_would_remove_at_once_stays_where_it_is(
    wire: Wire, queue: str, source: str
) -> None:
    wire.request("PUT", f"/{queue}?{AT_ONCE}")
    ids = [wire.publish(source) for _ in range(2)]
    pass_a_tick()

    assert_problem(move(wire, queue, source), 409, "too-old", f"message {ids[0]}")
    assert_problem(move(wire, queue, source, f"&id={ids[1]}"), 409, "too-old", f"queue {queue}")
    several = outcomes_in(move(wire, queue, source, f"&id={ids[0]},absent"))

    assert [each["status"] for each in several] == [409, 404]
    assert several[0]["type"] == "urn:mq:problem:too-old"
    assert (wire.count(source), wire.count(queue)) == ((2, 0), (0, 0))
    wire.request("PUT", f"/{queue}?ttl=")
    assert moved(move(wire, queue, source)) == 2
    assert [wire.receive(queue).headers["x-message-id"] for _ in ids] == ids


@pytest.mark.parametrize("is_leased", [False, True])
def test_a_receiver_that_buries_a_message_is_rid_of_it(
    wire: Wire, queue: str, source: str, is_leased: bool
) -> None:
    """So is the mover, of one that was received too often."""
    wire.request("PUT", f"/{queue}?{AT_ONCE}")
    message_id = wire.publish(source)
    if is_leased:
        wire.receive(source)

    assert moved(move(wire, queue, source, f"&id={message_id}&reason=no%20use")) == 1

    assert wire.count(source) == (0, 0)


def test_what_is_not_too_old_goes(wire: Wire, queue: str, source: str) -> None:
    wire.request("PUT", f"/{queue}?ttl=3600")
    message_id = wire.publish(source)

    assert moved(move(wire, queue, source)) == 1

    assert wire.receive(queue).headers["x-message-id"] == message_id
