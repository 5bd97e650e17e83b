"""ReceiveMessage: a receive, whose lease and id are the receipt handle."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from mq.config import SMALL_BODY_BYTES
from mq.errors import StoreUnavailable
from mq.names import QueueName, is_fifo
from mq.spool.queue.queue_settings import QueueSettings
from mq.store.bodies import total_length
from mq.store.receiving.long_receive import LongPoll
from mq.store.receiving.receive import receive_some
from mq.store.receiving.received_message import Received
from mq.times import in_ns
from mq.web.connections.presence import unless_client_leaves
from mq.web.standing_in_line import Wait
from mq_sqs.calls import Begun, Operations, Result, SqsCall, read_number
from mq_sqs.fifo.parameters import read_attempt_id
from mq_sqs.operations.batches import MAX_ENTRIES
from mq_sqs.operations.shown import answer_with, read_shown
from mq_sqs.protocol import Values
from mq_sqs.queues.queue_attributes import (
    MAX_VISIBILITY_SECONDS,
    MAX_WAIT_SECONDS,
    number_of,
)

_UNTIL_SHOWN_SECONDS = 30.0
"""How long a message that is to be shown again at once stays hidden, if a crash comes between its
receive and that."""

_Found = tuple[Sequence[Received], Sequence[bytes]]
"""Messages and their bodies."""


class _Ask(NamedTuple):
    """What a receive asks for: up to `limit` messages, hidden for `seconds`, or as long as the
    queue says for None: that is `hidden_seconds`. `attempt_id` is None where it means nothing."""

    limit: int
    wait_seconds: int
    seconds: int | None
    hidden_seconds: int
    attempt_id: str | None


async def receive_message(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    shown = read_shown(call.values)
    received, bodies = await _receive(operations, call, queue)
    return answer_with(received, bodies, shown, operations.addressing)


def begin_receive(operations: Operations, queue: QueueName, values: Values) -> Begun | None:
    """Begin ReceiveMessage. Returns None while the queue's settings must be read first; for an
    attempt that may have been answered before; and for one that hides nothing. What it is told is
    None if the usual way must answer with what was received, or wait. Raises SQSError."""
    settings = operations.store.known_settings(queue)
    if settings is None:
        return None
    shown, ask = read_shown(values), _read_ask(operations, queue, values, settings)
    if ask.attempt_id is not None or not ask.hidden_seconds:
        return None
    keeper, may_wait = operations.keeper_of(queue), ask.wait_seconds > 0
    waits = None
    if may_wait and keeper.count_spare(queue) <= 0:
        by = operations.fifo.in_order if is_fifo(queue) else receive_some
        waits = Wait((queue,), ask.limit, in_ns(ask.seconds), ask.wait_seconds, by)

    def tell(received: list[Received]) -> Result | None:
        bodies = [each.body for each in received if each.body is not None]
        is_long = sum([each.file_length for each in received]) > SMALL_BODY_BYTES
        if is_long or len(bodies) < len(received) or (may_wait and not (received or waits)):
            return None
        return answer_with(received, bodies, shown, operations.addressing)

    submit = partial(
        keeper.submit_receive,
        queue,
        limit=ask.limit,
        visibility_ns=in_ns(ask.seconds),
        may_wait=may_wait,
    )
    return Begun(submit, tell, receives=True, waits=waits)


def _read_ask(
    operations: Operations, queue: QueueName, values: Values, settings: QueueSettings
) -> _Ask:
    """Read what a call asks for. Raises SQSError."""
    usual = partial(number_of, settings, visibility_seconds=operations.visibility_seconds)
    attempt_id = read_attempt_id(values)
    limit = read_number(values, "MaxNumberOfMessages", 1, MAX_ENTRIES) or 1
    wait = read_number(values, "WaitTimeSeconds", 0, MAX_WAIT_SECONDS)
    if wait is None:
        wait = usual("ReceiveMessageWaitTimeSeconds")
    seconds = read_number(values, "VisibilityTimeout", 0, MAX_VISIBILITY_SECONDS)
    hidden_seconds = usual("VisibilityTimeout") if seconds is None else seconds
    if not is_fifo(queue) or not hidden_seconds:
        attempt_id = None
    return _Ask(limit, wait, seconds, hidden_seconds, attempt_id)


async def _receive(operations: Operations, call: SqsCall, queue: QueueName) -> _Found:
    settings = await operations.settings_of(queue)
    limit, wait, seconds, hidden_seconds, attempt_id = _read_ask(
        operations, queue, call.values, settings
    )
    if call.received:
        call.share = call.exits.enter_context(operations.store.answer_memory.share())
        call.share.hold_bodies(total_length(call.received))
        return call.received, await _read_bodies(operations, call.received)
    if attempt_id is not None:
        known = await _receive_again(operations, call, queue, attempt_id, hidden_seconds)
        if known is not None:
            return known
    poll = LongPoll(wait)
    if attempt_id is not None:
        call.exits.enter_context(operations.fifo.attempts.waiting(queue, attempt_id, poll))
    hidden = seconds if hidden_seconds else _UNTIL_SHOWN_SECONDS
    call.received.extend(await _take(operations, call, queue, limit, seconds=hidden, poll=poll))
    if not hidden_seconds:
        await _show_again(operations, queue, call.received)
    bodies = await _read_bodies(operations, call.received)
    if attempt_id is not None:
        if not call.received:
            # An earlier call of this attempt may have waited meanwhile too, and come first.
            known = await _receive_again(operations, call, queue, attempt_id, hidden_seconds)
            if known is not None:
                return known
        operations.fifo.attempts.keep(queue, attempt_id, call.received, bodies)
    return call.received, bodies


async def _receive_again(
    operations: Operations, call: SqsCall, queue: QueueName, attempt_id: str, seconds: int
) -> _Found | None:
    """Return what this attempt was answered before, if all of it is in flight still; it is hidden
    for that long from now. Returns None if this is a new receive. Raises StoreUnavailable if there
    is no memory for a large answer."""
    attempt = operations.fifo.attempts.find(queue, attempt_id)
    if attempt is None:
        return None
    share = call.exits.enter_context(operations.store.answer_memory.share())
    if attempt.size > SMALL_BODY_BYTES and not share.covers(attempt.size):
        raise StoreUnavailable("clients have yet to read too many answers; try again later")
    # They are this client's now, whatever becomes of the first call's answer.
    attempt.to_put_back.clear()
    is_renewed = await operations.fifo.renew(queue, attempt, seconds)
    # One may have been deleted meanwhile.
    if is_renewed and operations.fifo.attempts.find(queue, attempt_id) is attempt:
        call.share = share
        return attempt.received, attempt.bodies
    share.hold(0)
    return None


async def _take(
    operations: Operations,
    call: SqsCall,
    queue: QueueName,
    limit: int,
    *,
    seconds: float | None,
    poll: LongPoll,
) -> Sequence[Received]:
    """Receive messages. One who waits for them and leaves takes none."""
    call.share = call.exits.enter_context(operations.store.answer_memory.share())
    receiving = operations.keeper_of(queue).receive_many(queue, limit, seconds, poll, call.share)
    if poll.is_over:
        return await receiving
    return await unless_client_leaves(call.request, receiving, poll.end) or ()


async def _show_again(
    operations: Operations, queue: QueueName, received: Sequence[Received]
) -> None:
    keeper = operations.keeper_of(queue)
    await asyncio.gather(
        *(keeper.change_visibility(queue, each.message_id, each.lease, 0) for each in received)
    )


async def _read_bodies(operations: Operations, received: Sequence[Received]) -> list[bytes]:
    if all(each.body is not None for each in received):
        return [each.body or b"" for each in received]
    return await operations.store.read_bodies(received, list)
