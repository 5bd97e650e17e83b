"""Leases from the client's side, told without a server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from mq.client import LeaseLost, NoAnswer, Refused, operations
from mq.client.messages import Delivery
from mq.client.retries import Context
from mq.client.wire import ClientPause, Operation, ServerAnswer
from mq.names import MessageId
from tests.support.played import BUSY, GONE, ORDERS, UNSENT, Played, PlayedClock, answer, problem


@pytest.fixture
def delivery() -> Delivery:
    now = datetime.now(UTC)
    lease = "00c0ffee00c0ffee"
    return Delivery(ORDERS, MessageId("id-1"), b"", "a/b", lease, 1, now, now, 30, 30, 1000.0)


@pytest.mark.parametrize("lost", [GONE, BUSY])
def test_gone_after_an_unknown_outcome_is_done(
    context: Context, clock: PlayedClock, delivery: Delivery, lost: object
) -> None:
    not_found = problem(404, "message-not-found")

    made: list[Callable[[], Operation[None]]] = [
        lambda: operations.acknowledge(context, delivery),
        lambda: operations.remove(context, ORDERS, "id-1"),
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
        lambda: operations.acknowledge(context, delivery),
        lambda: operations.release(context, delivery, 0),
        lambda: operations.release(context, delivery, 5),
        lambda: operations.extend(context, delivery, 5),
        lambda: operations.renew(context, delivery, None),
    ]
    for make in made:
        with pytest.raises(LeaseLost) as caught:
            Played(make(), clock, given)
        assert caught.value.problem is not None
        assert caught.value.problem.status == given.status


def extended(seconds: float) -> ServerAnswer:
    visible_at = datetime.now(UTC).isoformat()
    return answer(200, x_visible_at=visible_at, etag='"00c0ffee00c0ffee"')


def test_a_lease_is_renewed_at_a_third_and_given_up_at_its_end(
    context: Context, clock: PlayedClock, delivery: Delivery
) -> None:
    with pytest.raises(LeaseLost) as caught:
        Played(operations.renew(context, delivery, 30), clock, extended(30), extended(30), GONE)

    assert caught.value.problem is None
    assert isinstance(caught.value.__cause__, NoAnswer)
    assert delivery.leased_at == 1020
    assert 1040 < clock.now <= 1050


def test_gone_after_a_try_that_was_never_sent_is_not_done(
    context: Context, clock: PlayedClock, delivery: Delivery
) -> None:
    """Another client acknowledged it while there was no server to connect to."""
    not_found = problem(404, "message-not-found")

    made: list[Callable[[], Operation[None]]] = [
        lambda: operations.acknowledge(context, delivery),
        lambda: operations.remove(context, ORDERS, "id-1"),
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
    for make in (operations.extend, operations.release):
        asked = Played(make(context, delivery, seconds), clock, extended(0)).requests[0].target

        assert 0 < float(asked.partition("visibility=")[2]) < 1e-6


@pytest.mark.parametrize("seconds", [0, 0.0])
def test_a_lease_without_a_length_is_refused_before_it_is_sent(
    context: Context, delivery: Delivery, seconds: float
) -> None:
    with pytest.raises(ValueError, match="release"):
        next(operations.extend(context, delivery, seconds))


@pytest.mark.parametrize("visibility", [0.000001, 0.003, 0.05])
def test_a_short_lease_is_renewed_for_longer_and_not_again_and_again(
    context: Context, clock: PlayedClock, delivery: Delivery, visibility: float
) -> None:
    delivery.lease_seconds = visibility
    renewing = operations.renew(context, delivery, visibility)
    began_at, renewals = clock.now, 0
    step = next(renewing)

    while clock.now < began_at + 3:
        if isinstance(step, ClientPause):
            clock.now += step.seconds + 0.0001
            step = renewing.send(None)
        else:
            renewals += 1
            step = renewing.send(extended(0))

    assert 10 < renewals <= 3 / 0.03 + 1
