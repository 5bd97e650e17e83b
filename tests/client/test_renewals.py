"""When a lease is renewed, and when it is given up, told without a server."""

from __future__ import annotations

import pytest

from mq.client import LeaseLost, NoAnswer
from mq.client.messages import Delivery
from mq.client.renewals import renew
from mq.client.retries import Context
from mq.client.wire import ClientPause
from tests.support.played import BUSY, GONE, Played, PlayedClock, answer, extended, problem


def test_a_lease_is_renewed_at_a_third_and_given_up_at_its_end(
    context: Context, clock: PlayedClock, delivery: Delivery
) -> None:
    with pytest.raises(LeaseLost) as caught:
        Played(renew(context, delivery, 30), clock, extended(), extended(), GONE)

    assert caught.value.problem is None
    assert isinstance(caught.value.__cause__, NoAnswer)
    assert delivery.leased_at == 1020
    assert 1040 < clock.now <= 1050


@pytest.mark.parametrize(
    "failing", [GONE, BUSY, problem(401, "unauthorized"), problem(500, "defect"), answer(404)]
)
def test_a_renewal_that_fails_is_tried_again_in_the_next_third(
    context: Context, clock: PlayedClock, delivery: Delivery, failing: object
) -> None:
    """A retry time of 0 changes nothing: two have to fail before the lease is lost."""
    once = context._replace(retry_seconds=0)

    with pytest.raises(LeaseLost):
        Played(renew(once, delivery, 30), clock, failing, extended(), failing)

    assert delivery.leased_at == 1020
    assert clock.now == 1040


def test_a_connection_that_hangs_costs_one_renewal_and_not_the_lease(
    context: Context, clock: PlayedClock, delivery: Delivery
) -> None:
    renewing = renew(context, delivery, 30)
    pause = next(renewing)
    assert isinstance(pause, ClientPause)
    clock.now += pause.seconds

    request = renewing.send(None)

    assert not isinstance(request, ClientPause)
    assert clock.now + request.patience_seconds <= delivery.leased_at + 2 / 3 * 30


@pytest.mark.parametrize("visibility", [0.000001, 0.003, 0.05])
def test_a_short_lease_is_renewed_for_longer_and_not_again_and_again(
    context: Context, clock: PlayedClock, delivery: Delivery, visibility: float
) -> None:
    delivery.lease_seconds = visibility
    renewing = renew(context, delivery, visibility)
    began_at, renewals = clock.now, 0
    step = next(renewing)

    while clock.now < began_at + 3:
        if isinstance(step, ClientPause):
            clock.now += step.seconds + 0.0001
            step = renewing.send(None)
        else:
            renewals += 1
            step = renewing.send(extended())

    assert 10 < renewals <= 3 / 0.03 + 1
