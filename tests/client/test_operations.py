"""Leases from the client's side, told without a server."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from mq.client import LeaseLost, Refused, UnexpectedAnswer, by_id, moves, operations
from mq.client.messages import Delivery
from mq.client.renewals import renew
from mq.client.retries import Context
from mq.client.wire import Operation, ServerAnswer
from tests.support.played import (
    BUSY,
    GONE,
    ORDERS,
    UNSENT,
    Played,
    PlayedClock,
    answer,
    extended,
    problem,
)


@pytest.mark.parametrize("lost", [GONE, BUSY])
def test_gone_after_an_unknown_outcome_is_done(
    context: Context, clock: PlayedClock, delivery: Delivery, lost: object
) -> None:
    not_found = problem(404, "message-not-found")

    made: list[Callable[[], Operation[None]]] = [
        lambda: by_id.acknowledge(context, delivery),
        lambda: by_id.remove(context, ORDERS, "id-1"),
        lambda: operations.delete_queue(context, ORDERS),
    ]
    for make in made:
        assert len(Played(make(), clock, lost, not_found).requests) == 2
        with pytest.raises(Refused):
            Played(make(), clock, not_found)


@pytest.mark.parametrize(
    "given", [problem(412, "lease-mismatch"), problem(404, "message-not-found"),
              problem(404, "queue-not-found")],
)  # fmt: skip
def test_a_lease_is_lost_whatever_took_it(
    context: Context, clock: PlayedClock, delivery: Delivery, given: ServerAnswer
) -> None:
    made: list[Callable[[], Operation[None]]] = [
        lambda: by_id.acknowledge(context, delivery),
        lambda: by_id.release(context, delivery, 0),
        lambda: by_id.release(context, delivery, 5),
        lambda: by_id.extend(context, delivery, 5),
        lambda: renew(context, delivery, None),
    ]
    for make in made:
        with pytest.raises(LeaseLost) as caught:
            Played(make(), clock, given)
        assert caught.value.problem is not None
        assert caught.value.problem.status == given.status


def test_gone_after_a_try_that_was_never_sent_is_not_done(
    context: Context, clock: PlayedClock, delivery: Delivery
) -> None:
    """Another client acknowledged it while there was no server to connect to."""
    not_found = problem(404, "message-not-found")

    made: list[Callable[[], Operation[None]]] = [
        lambda: by_id.acknowledge(context, delivery),
        lambda: by_id.remove(context, ORDERS, "id-1"),
        lambda: operations.delete_queue(context, ORDERS),
    ]
    for make in made:
        with pytest.raises(Refused):
            Played(make(), clock, UNSENT, UNSENT, not_found)
        assert len(Played(make(), clock, UNSENT, GONE, UNSENT, not_found).requests) == 4


@pytest.mark.parametrize("seconds", [1e-7, 1e-9, 1e-300])
def test_the_shortest_lease_is_no_release(
    context: Context, clock: PlayedClock, delivery: Delivery, seconds: float
) -> None:
    for make in (by_id.extend, by_id.release):
        asked = Played(make(context, delivery, seconds), clock, extended()).requests[0].target

        assert 0 < float(asked.partition("visibility=")[2]) < 1e-6


@pytest.mark.parametrize("seconds", [0, 0.0])
def test_a_lease_without_a_length_is_refused_before_it_is_sent(
    context: Context, delivery: Delivery, seconds: float
) -> None:
    with pytest.raises(ValueError, match="release"):
        next(by_id.extend(context, delivery, seconds))


NOT_HERE = answer(404, b"<html>default backend - 404</html>")
"""What a proxy says while it does not know where the server is."""


@pytest.mark.parametrize("lost", [GONE, BUSY])
def test_a_proxy_that_does_not_know_the_server_says_nothing_of_an_earlier_try(
    context: Context, clock: PlayedClock, delivery: Delivery, lost: object
) -> None:
    made: list[Callable[[], Operation[object]]] = [
        lambda: by_id.acknowledge(context, delivery),
        lambda: by_id.acknowledge_many(context, ORDERS, {"id-1": delivery.lease}),
        lambda: by_id.acknowledge_many(context, ORDERS, {"a": "0", "b": "1"}),
        lambda: by_id.remove(context, ORDERS, "id-1"),
        lambda: operations.delete_queue(context, ORDERS),
        lambda: by_id.release(context, delivery, 0),
        lambda: moves.move_many(context, ORDERS, delivery.queue, ["id-1"], None),
    ]
    for make in made:
        with pytest.raises(UnexpectedAnswer):
            Played(make(), clock, lost, NOT_HERE)


@pytest.mark.parametrize("settle", [by_id.acknowledge, partial(by_id.release, delay=0)])
def test_a_page_of_another_web_server_settles_nothing(
    context: Context,
    clock: PlayedClock,
    delivery: Delivery,
    settle: Callable[[Context, Delivery], Operation[None]],
) -> None:
    with pytest.raises(UnexpectedAnswer):
        Played(settle(context, delivery), clock, answer(200, b"<html>"))


@pytest.mark.parametrize(
    "given", [problem(412, "lease-mismatch"), problem(404, "message-not-found")]
)
def test_a_release_that_an_earlier_try_has_done_is_done(
    context: Context, clock: PlayedClock, delivery: Delivery, given: ServerAnswer
) -> None:
    played = Played(by_id.release(context, delivery, 0), clock, GONE, given)

    assert len(played.requests) == 2
