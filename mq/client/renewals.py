"""Renewing a lease, as generators that both clients run."""

from __future__ import annotations

from typing import Never

from mq.client.by_id import extend
from mq.client.errors import ClientError, LeaseLost
from mq.client.messages import Delivery
from mq.client.retries import Context
from mq.client.wire import ClientPause, Operation

_RENEWALS_PER_LEASE = 3
"""Two renewals may fail before a lease is lost."""
_SHORTEST_RENEWAL_SECONDS = 0.03
"""Renewals of one lease are at least this far apart."""


def renew(context: Context, delivery: Delivery, visibility: float | None) -> Operation[Never]:
    """Renew a lease again and again, until the caller stops it. Raises LeaseLost.

    A lease that is too short for that is first extended to one that is long enough.
    """
    if visibility is not None:
        visibility = max(visibility, _SHORTEST_RENEWAL_SECONDS * _RENEWALS_PER_LEASE)
    yield ClientPause(seconds_to_renewal(delivery, context.clock(), least=0.0))
    while True:
        yield ClientPause((yield from renew_once(context, delivery, visibility)))


def renew_once(context: Context, delivery: Delivery, visibility: float | None) -> Operation[float]:
    """Extend a lease, and try that for a third of it at most. Returns in how many seconds to do
    this again: after a third of the new lease, or in the next third of the old one.

    Raises LeaseLost if the lease is not the current one, or would be over by then.
    """
    began_at, share = context.clock(), delivery.lease_seconds / _RENEWALS_PER_LEASE
    left_seconds = delivery.lease_ends_at - began_at
    try:
        yield from extend(context.within(min(share, left_seconds)), delivery, visibility)
    except LeaseLost:
        raise
    except ClientError as error:
        # A connection that hangs, a token that is just being replaced or a proxy that has no server
        # for a moment costs this renewal, and not the lease.
        if began_at + share >= delivery.lease_ends_at:
            raise LeaseLost(
                f"the lease on message {delivery.id} of queue {delivery.queue} was not renewed in "
                f"time: {error}",
                error.problem,
            ) from error
        return max(began_at + share - context.clock(), _SHORTEST_RENEWAL_SECONDS)
    return seconds_to_renewal(delivery, context.clock())


def seconds_to_renewal(
    delivery: Delivery, now: float, least: float = _SHORTEST_RENEWAL_SECONDS
) -> float:
    """Return in how many seconds a third of the lease is over, and at least `least`."""
    due_at = delivery.leased_at + delivery.lease_seconds / _RENEWALS_PER_LEASE
    return max(due_at - now, least)
