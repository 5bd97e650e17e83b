"""What a client does to a message by its id: remove it, release it, or extend its lease; as
generators that both clients run. All of them raise ClientError."""

from __future__ import annotations

from collections.abc import Mapping

from mq.client import arguments
from mq.client.answers import lease_seconds, read_failures, read_lease, read_visible_at
from mq.client.arguments import MOST_BYTES_OF_IDS, split_ids
from mq.client.errors import ClientError, LeaseLost, MessageNotFound, QueueNotFound
from mq.client.messages import Delivery
from mq.client.retries import Context, ask
from mq.client.wire import Operation, Request, ServerAnswer, query
from mq.config import MAX_REMOVALS
from mq.names import MessageId, QueueName

ANY_LEASE = "*"
"""In place of a lease: any that the message has."""

_REMOVED = frozenset({202})
_REMOVED_MANY = frozenset({202, 207})
"""The statuses of a removal of several messages: of all, or of those that its lines name."""
_RELEASED = frozenset({204})
GONE = (MessageNotFound, QueueNotFound)
"""The answers to a removal or deletion that an earlier try has done."""
_ENDED = (*GONE, LeaseLost)
"""The answers to a release whose lease an earlier try has ended."""


def remove(
    context: Context, queue: QueueName, message_id: str, lease: str | None = None
) -> Operation[None]:
    """Remove a message, with a lease only under that one."""
    target = f"/{queue}/messages/{arguments.message_id('message_id', message_id)}"
    request = Request("DELETE", target, headers=if_match(lease), done=_REMOVED)
    yield from ask(context, request, GONE)


def release_now(
    context: Context, queue: QueueName, message_id: MessageId, lease: str | None
) -> Operation[None]:
    """Let a hidden message be ready at once, with a lease only under that one."""
    target = f"/{queue}/messages{query(message_id, visibility=0)}"
    request = Request("GET", target, headers=if_match(lease), done=_RELEASED)
    yield from ask(context, request, _ENDED)


def prolong(
    context: Context, queue: QueueName, message_id: MessageId, visibility: float | None, lease: str
) -> Operation[ServerAnswer]:
    """Let a lease last for `visibility` seconds from now on; None means the server's usual time.
    The lease may be ANY_LEASE. Returns the answer, perhaps without its body."""
    target = f"/{queue}/messages{query(message_id, visibility=visibility)}"
    request = Request("GET", target, headers=if_match(lease), wants_body=False)
    return (yield from ask(context, request))


def acknowledge(context: Context, delivery: Delivery) -> Operation[None]:
    """Remove a message under its lease. Raises LeaseLost if the lease is not the current one, or
    the message is gone."""
    try:
        yield from remove(context, delivery.queue, delivery.id, delivery.lease)
    except (MessageNotFound, QueueNotFound) as error:
        raise _lost(error) from None


def acknowledge_many(
    context: Context, queue: QueueName, leases: Mapping[str, str]
) -> Operation[dict[str, ClientError]]:
    """Remove messages under their leases. Returns those that were not removed, each with the
    reason: LeaseLost or MessageNotFound."""
    failed: dict[str, ClientError] = {}
    for ids in split_ids(arguments.leases_by_id(leases), MAX_REMOVALS, MOST_BYTES_OF_IDS):
        target = f"/{queue}/messages/{','.join(ids)}"
        matched = ", ".join(f'"{leases[each]}"' for each in ids)
        request = Request("DELETE", target, headers={"If-Match": matched}, done=_REMOVED_MANY)
        try:
            answer = yield from ask(context, request, GONE)
        except (LeaseLost, MessageNotFound) as error:
            # The answer for a single id has no lines.
            failed[ids[0]] = error
            continue
        if answer.status == 207:
            failed |= read_failures(answer, ids)
    return failed


def release(context: Context, delivery: Delivery, delay: float) -> Operation[None]:
    """Give a message back. Without a delay the lease ends now; with one it ends by itself after the
    delay. Raises TypeError for a delay that is not a number, and ValueError for one below 0."""
    arguments.seconds("delay", delay)
    if delay < 0:
        raise ValueError(f"delay={delay!r}: give 0 or more seconds")
    if delay > 0:
        return (yield from extend(context, delivery, delay))
    try:
        yield from release_now(context, delivery.queue, delivery.id, delivery.lease)
    except (MessageNotFound, QueueNotFound) as error:
        raise _lost(error) from None


def extend(context: Context, delivery: Delivery, visibility: float | None) -> Operation[None]:
    """Let the lease last for `visibility` seconds from now on; None means the server's usual time.
    Changes `delivery`. Raises LeaseLost as `acknowledge` does, and ValueError for 0: to the server
    that is a release."""
    if visibility == 0:
        raise ValueError("visibility: a lease lasts for more than 0 seconds; use release to end it")
    began_at = context.clock()
    try:
        answer = yield from prolong(
            context, delivery.queue, delivery.id, visibility, delivery.lease
        )
    except (MessageNotFound, QueueNotFound) as error:
        raise _lost(error) from None
    delivery.visible_at = read_visible_at(answer)
    # If the server's file system has no extended attributes, every extension is a new lease.
    delivery.lease = read_lease(answer)
    if visibility is None:
        visibility, began_at = lease_seconds(answer, delivery.visible_at), answer.came_at
    delivery.lease_seconds, delivery.leased_at = visibility, began_at


def if_match(lease: str | None) -> dict[str, str]:
    """Return the header of a request that is to be done under this lease only."""
    if lease is None:
        return {}
    return {"If-Match": lease if lease == ANY_LEASE else f'"{lease}"'}


def _lost(error: ClientError) -> LeaseLost:
    return LeaseLost(str(error), error.problem)
