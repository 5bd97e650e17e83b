"""Leases that are extended by name while they are renewed."""

from __future__ import annotations

from mq.client import Queue
from tests.support.faces import counts, receive_now, wait_for_renewals
from tests.support.processes import wait_until


def test_a_renewal_leaves_an_extended_lease_as_long_as_it_is(hasty_orders: Queue) -> None:
    hasty_orders.publish("one")

    with receive_now(hasty_orders, 0.5) as message:
        message.extend(3)
        extended = message.visible_at
        wait_until(lambda: message.visible_at != extended)
        assert message.visible_at > extended


def test_a_lease_that_is_made_shorter_is_renewed_in_time(hasty_orders: Queue) -> None:
    hasty_orders.publish("one")

    with receive_now(hasty_orders, 60) as message:
        message.extend(1)
        wait_for_renewals(message, 4)
        assert hasty_orders.receive() is None

    assert counts(hasty_orders) == (0, 0, 0)
