"""The FIFO queues of one gateway, for the event loop: what a store offers, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from weakref import WeakValueDictionary

import structlog

from mq.commit.operation import Done, Operation
from mq.config import SECOND_NS, SWEEP_SECONDS
from mq.errors import InvalidRequest, MQError, StoreUnavailable
from mq.names import MessageId, QueueName
from mq.store.answer_memory import Share
from mq.store.moving.redrive import Redriven
from mq.store.publishing.publish import Published
from mq.store.receiving.long_receive import LongPoll
from mq.store.receiving.oldest import Ask
from mq.store.receiving.receive import ReceivedOrBusy
from mq.store.receiving.received_message import Received
from mq.store.shared_state import Workspace
from mq.store.store import Store
from mq_sqs.fifo.attempts import Attempts, ReceiveAttempt
from mq_sqs.fifo.fifo_queue import PURGED_NOTE, FifoQueues
from mq_sqs.fifo.in_flight import look_for_overdue, look_for_removed
from mq_sqs.fifo.moving import OrderedMove, move_in_order
from mq_sqs.fifo.publishing import OrderedDraft
from mq_sqs.fifo.receipts import (
    change_visibility_in_order,
    remove_in_order,
    remove_many_in_order,
)
from mq_sqs.fifo.receiving import receive_in_order
from mq_sqs.fifo.sending import send_each, send_in_order
from mq_sqs.fifo.using import use

log = structlog.get_logger(__name__)

MAX_READING_SECONDS = 20.0
"""How long a request waits until its queue is read: less than SDKs wait for an answer. They send it
again when they see 503."""

_LOOK_SECONDS = 0.25
_PAUSE_FACTOR = 20
"""After a look at all hidden messages that took T, there is none within this many times T."""


class FifoService:
    """Methods with the names of those of `Store` do what these do, in the order of groups.

    Everything is durable on return. Every call raises QueueNotFound, and StoreUnavailable also if
    another process has the FIFO queues of the root.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queues = FifoQueues()
        self._sends = store.joint(self._send_each)
        self.attempts = Attempts()
        self._purges: WeakValueDictionary[QueueName, asyncio.Lock] = WeakValueDictionary()
        self._is_looking = False

    def close(self) -> None:
        """Let another process have the FIFO queues, once the store is closed."""
        self._queues.close()

    def has_read(self, queue: QueueName) -> bool:
        """Return whether the queue was read from its files. Until then nothing may be submitted."""
        return self._queues.get(queue) is not None

    async def require(
        self, queue: QueueName, within_seconds: float | None = MAX_READING_SECONDS
    ) -> None:
        """Have the queue read from its files. If that takes longer than `within_seconds` it goes on
        all the same, for everyone who asks meanwhile. Raises StoreUnavailable then."""
        self._begin_to_look()
        if self.has_read(queue):
            return
        try:
            async with asyncio.timeout(within_seconds):
                await self._store.run(lambda work: use(work, self._queues, queue))
        except TimeoutError:
            left = self._queues.left_to_read(queue)
            raise StoreUnavailable(
                f"queue {queue} is being read from its files ({left} of those that are ready are "
                "left to read); try again"
            ) from None

    async def look_at_settings(self, queue: QueueName) -> None:
        """Notice what was changed just now. If the queue must be read from its files for it, those
        who ask for it from here on are told as by `require`, and do not wait for all of that.
        Raises QueueNotFound."""
        await self._store.call(lambda work: self._queues.find(work, queue))

    async def send(self, queue: QueueName, messages: Sequence[OrderedDraft]) -> list[Published]:
        """See `mq_sqs.fifo.sending`. Raises PropertiesUnsupported too."""
        await self.require(queue)
        return await self._store.run(
            lambda work: send_in_order(work, self._queues, queue, messages)
        )

    def submit_send(self, queue: QueueName, message: OrderedDraft, done: Done) -> None:
        """Send one message as `send` does, for a caller that does not wait: see
        `Store.submit_publish`. `done` gets a Published."""
        self._sends.submit(queue, message, done)

    def submit_send_batch(
        self, queue: QueueName, messages: Sequence[OrderedDraft], done: Done
    ) -> None:
        """Send messages as `send` does, for a caller that does not wait."""
        self._store.submit(lambda work: send_in_order(work, self._queues, queue, messages), done)

    def _send_each(
        self, work: Workspace, queue: QueueName, messages: Sequence[OrderedDraft]
    ) -> Operation[Sequence[Published | BaseException]]:
        return send_each(work, self._queues, queue, messages)

    async def purge(self, queue: QueueName) -> None:
        """Purge the queue, and forget what was sent to it: it may be sent again. Purges of a queue
        happen one after the other: the note of the last one stays."""
        await self.require(queue)
        async with self._purges.setdefault(queue, asyncio.Lock()):
            note = await self.forgetting()
            await self._store.purge(queue)
            with suppress(InvalidRequest):  # The settings are full: nothing is forgotten.
                await self._store.change_settings(queue, note)

    async def forgetting(self) -> dict[str, str]:
        """Return the note with which a queue forgets what was sent to it until now. Its time is not
        the clock's: a message that was sent before the clock was set back may be ahead of that."""
        now = await self._store.call(lambda work: work.ids.next_position())
        return {PURGED_NOTE: str(now.published_ns)}

    async def receive_many(
        self,
        queue: QueueName,
        limit: int,
        visibility_seconds: float | None,
        wait: float | LongPoll,
        share: Share | None,
    ) -> list[Received]:
        await self.require(queue)
        return await self._store.receive_many(
            queue, limit, visibility_seconds, wait, share, by=self.in_order
        )

    def submit_receive(
        self,
        queue: QueueName,
        done: Done,
        limit: int,
        visibility_ns: int | None,
        *,
        may_wait: bool,
    ) -> None:
        """Receive as `receive_many` does, for a caller that does not wait: see
        `Store.submit_receive`."""
        asked = limit, visibility_ns
        self._store.submit_receive(queue, done, *asked, may_wait=may_wait, by=self.in_order)

    def count_spare(self, queue: QueueName) -> int:
        """Return how many messages may be received that nobody else waits for."""
        state = self._queues.get(queue)
        return 0 if state is None else self._store.count_spare(queue, state.groups.available)

    def in_order(self, work: Workspace, queue: QueueName, ask: Ask) -> Operation[ReceivedOrBusy]:
        """Take messages of a queue that was read from its files, as `receive_in_order` does."""
        return receive_in_order(work, self._queues, queue, ask)

    def submit_remove(
        self, queue: QueueName, message_id: MessageId, leases: frozenset[int], done: Done
    ) -> None:
        def end(result: object, error: BaseException | None) -> None:
            if error is None:
                self.attempts.forget(queue, [message_id])
            done(result, error)

        self._store.submit(
            lambda work: remove_in_order(work, self._queues, queue, message_id, leases), end
        )

    def submit_remove_many(
        self, queue: QueueName, ids: Sequence[MessageId], leases: frozenset[int], done: Done
    ) -> None:
        def end(outcomes: list[MQError | None] | None, error: BaseException | None) -> None:
            if outcomes is not None:
                self._forget_removed(queue, ids, outcomes)
            done(outcomes, error)

        self._store.submit(
            lambda work: remove_many_in_order(work, self._queues, queue, ids, leases), end
        )

    def _forget_removed(
        self, queue: QueueName, ids: Sequence[MessageId], outcomes: Sequence[MQError | None]
    ) -> None:
        """Forget the attempts that were answered with messages that are removed now."""
        told = zip(ids, outcomes, strict=True)
        self.attempts.forget(queue, [each for each, outcome in told if outcome is None])

    async def change_visibility(
        self, queue: QueueName, message_id: MessageId, lease: int, seconds: float
    ) -> bool:
        is_changed = await self._change(queue, message_id, lease, seconds)
        if is_changed:
            self.attempts.forget(queue, [message_id])
        return is_changed

    async def renew(self, queue: QueueName, attempt: ReceiveAttempt, seconds: float) -> bool:
        """Hide all messages of an attempt for that long from now. Returns False if one is not in
        flight under its lease any more; then the others are shown."""
        found = attempt.received
        are_renewed = await asyncio.gather(
            *(self._change(queue, each.message_id, each.lease, seconds) for each in found)
        )
        if all(are_renewed):
            return True
        await asyncio.gather(
            *(
                self.change_visibility(queue, each.message_id, each.lease, 0)
                for each, is_renewed in zip(found, are_renewed, strict=True)
                if is_renewed
            )
        )
        return False

    async def _change(
        self, queue: QueueName, message_id: MessageId, lease: int, seconds: float
    ) -> bool:
        await self.require(queue)
        receipt, ns = (message_id, lease), int(seconds * SECOND_NS)
        return await self._store.run(
            lambda work: change_visibility_in_order(work, self._queues, queue, receipt, ns)
        )

    async def move(self, move: OrderedMove) -> Redriven:
        """Do what the store's redrive does, in order; see `mq_sqs.fifo.moving`."""
        self._begin_to_look()
        return await self._store.run(lambda work: move_in_order(work, self._queues, move))

    def _begin_to_look(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._store.background.begin(self._look_forever())

    async def _look_forever(self) -> None:
        next_look = 0.0
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await self._store.call(look_for_overdue, self._queues)
                if monotonic() >= next_look:
                    started = monotonic()
                    await self._store.run(partial(look_for_removed, fifo=self._queues))
                    took = monotonic() - started
                    next_look = started + max(SWEEP_SECONDS, _PAUSE_FACTOR * took)
            except MQError as error:
                log.warning("looking for hidden messages failed", error=str(error))
