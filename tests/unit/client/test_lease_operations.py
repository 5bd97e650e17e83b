"""Leases from the client's side, told without a server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from mq.client import LeaseLost, NoAnswer, Refused, operations
from mq.client.messages import Delivery
from mq.client.retries import Context
from mq.client.wire import Answer, Operation
from mq.names import MessageId
from tests.unit.client.played import BUSY, GONE, ORDERS, Clock, Played, answer, problem


@pytest.fixture
def delivery() -> Delivery:
    now = datetime.now(UTC)
    lease = "00c0ffee00c0ffee"
    return Delivery(ORDERS, MessageId("id-1"), b"", "a/b", lease, 1, now, now, 30, 30, 1000.0)


@pytest.mark.parametrize("lost", [GONE, BUSY])
def test_gone_after_an_unknown_outcome_is_done(
    context: Context, clock: Clock, delivery: Delivery, lost: object
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
    context: Context, clock: Clock, delivery: Delivery, given: Answer
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


def extended(seconds: float) -> Answer:
    visible_at = datetime.now(UTC).isoformat()
    return answer(200, x_visible_at=visible_at, etag='"00c0ffee00c0ffee"')


def test_a_lease_is_renewed_at_a_third_and_given_up_at_its_end(
    context: Context, clock: Clock, delivery: Delivery
) -> None:
    with pytest.raises(LeaseLost) as caught:
        Played(operations.renew(context, delivery, 30), clock, extended(30), extended(30), GONE)

    assert caught.value.problem is None
    assert isinstance(caught.value.__cause__, NoAnswer)
    assert delivery.leased_at == 1020
    assert 1040 < clock.now <= 1050
