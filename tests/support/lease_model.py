"""The model, with what `id`, `max` and `peek` do; `test_model.py` runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from mq.errors import LeaseMismatch, MessageNotFound, QueueNotFound
from mq.ids import is_server_id
from mq.lifecycle import HIDDEN_STATES, State
from mq.names import MessageId, QueueName
from mq.store.by_id import Guard
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from tests.support.messages import SECOND_NS
from tests.support.model import INDEX, QUEUES, SECONDS, SERVER, Model, ModelMessage
from tests.support.stores import body_of

LIMITS = st.sampled_from([1, 2, 5, 1000])


class LeaseModel(Model):
    """Leases are begun, prolonged and ended by id as well."""

    @precondition(Model.has_messages)
    @rule(index=INDEX, seconds=SECONDS, server=SERVER)
    def take_by_id(self, index: int, seconds: int, server: int) -> None:
        queue, message_id = self._pick(index)
        on = self._server(server)

        received = on.run(on.store.take(queue, message_id, seconds))

        message = self.note_received(received, seconds)
        # What it was before counts for a receiver that never got it: see `take_by_id_and_leave`.
        self.receipts[-1] = received._replace(before=None)
        assert on.run(body_of(on.store, received)) == message.body

    @precondition(Model.has_messages)
    @rule(index=INDEX, seconds=SECONDS, server=SERVER)
    def take_by_id_and_leave(self, index: int, seconds: int, server: int) -> None:
        """Take a message like a client that is gone before the answer: the message is as it was,
        ready ones without a lease."""
        queue, message_id = self._pick(index)
        on = self._server(server)

        received = on.run(on.store.take(queue, message_id, seconds))
        received.close(on.store._work.files)
        on.run(on.store.put_back(received))

        message = self.queues[queue][message_id]
        if message.visible_at is None:
            message.lease, message.is_durable = 0, False
            self._bury(queue, message_id)

    @precondition(lambda self: self.receipts)
    @rule(index=INDEX, seconds=SECONDS, server=SERVER)
    def prolong(self, index: int, seconds: int, server: int) -> None:
        receipt = self.receipts[index % len(self.receipts)]
        on = self._server(server)

        def take(store: Store) -> Coroutine[Any, Any, Received]:
            guard = Guard(frozenset({receipt.lease}))
            return store.take(receipt.queue, receipt.message_id, seconds, guard)

        if not self._is_refused(receipt, server, take):
            message = self.queues[receipt.queue][receipt.message_id]
            received = on.run(take(on.store))
            assert received.lease == receipt.lease
            assert received.receive_count == message.count
            assert on.run(body_of(on.store, received)) == message.body
            message.visible_at, message.is_durable = self.now + seconds, True

    @precondition(lambda self: self.receipts)
    @rule(index=INDEX, server=SERVER)
    def release_under_lease(self, index: int, server: int) -> None:
        receipt = self.receipts[index % len(self.receipts)]
        queue, message_id = receipt.queue, receipt.message_id
        on = self._server(server)

        def release(store: Store) -> Coroutine[Any, Any, None]:
            return store.release_by_id(queue, message_id, Guard(frozenset({receipt.lease})))

        if not self._is_refused(receipt, server, release):
            on.run(release(on.store))
            self.note_released_by_id(queue, message_id)

    @precondition(Model.has_messages)
    @rule(index=INDEX, server=SERVER)
    def release_by_id(self, index: int, server: int) -> None:
        queue, message_id = self._pick(index)
        on = self._server(server)

        on.run(on.store.release_by_id(queue, message_id))

        self.note_released_by_id(queue, message_id)

    def note_released_by_id(self, queue: QueueName, message_id: MessageId) -> None:
        message = self.queues[queue][message_id]
        was_leased = message.visible_at is not None
        message.visible_at, message.lease, message.is_durable = None, 0, False
        if was_leased:
            self._bury(queue, message_id)

    def note_released(self, receipt: Received) -> None:
        message = self.queues.get(receipt.queue, {}).get(receipt.message_id)
        was_leased = message is not None and message.visible_at is not None
        super().note_released(receipt)
        if message is not None and was_leased and message.visible_at is None:
            self._bury(receipt.queue, receipt.message_id)

    def _is_refused(
        self, receipt: Received, server: int, work: Callable[[Store], Coroutine[Any, Any, Any]]
    ) -> bool:
        """Return whether the receipt is worth nothing any more. The store must say why then."""
        on = self._server(server)
        message = self.queues.get(receipt.queue, {}).get(receipt.message_id)
        if message is not None and message.lease == receipt.lease:
            return False
        missing = MessageNotFound if message is None else LeaseMismatch
        with pytest.raises(missing if receipt.queue in self.queues else QueueNotFound):
            on.run(work(on.store))
        return True

    @rule(queue=QUEUES, limit=LIMITS, seconds=SECONDS, server=SERVER)
    def receive_many(self, queue: QueueName, limit: int, seconds: int, server: int) -> None:
        on = self._server(server)
        received = self._unless_missing(
            queue, on, lambda store: store.receive_many(queue, limit, seconds)
        )
        if received is None:
            return
        ready = self._ready(queue)
        taken = [each.message_id for each in received]
        assert len(taken) == min(limit, len(ready))
        assert set(taken) <= set(ready)
        if self.servers == 1:
            # Of what another server published an event tells, perhaps only when no more is known.
            assert taken == ready[:limit]
        for each in received:
            assert on.run(body_of(on.store, each)) == self.note_received(each, seconds).body

    @rule(queue=QUEUES, limit=LIMITS, server=SERVER)
    def peek(self, queue: QueueName, limit: int, server: int) -> None:
        on = self._server(server)
        peeked = self._unless_missing(queue, on, lambda store: store.peek(queue, limit))
        if peeked is None:
            return
        assert [each.message_id for each in peeked] == self._ready(queue)[:limit]
        for each in peeked:
            message = self.queues[queue][each.message_id]
            assert (each.state, each.receive_count) == ("ready", message.count)
            assert on.run(body_of(on.store, each)) == message.body

    @rule(queue=QUEUES, limit=LIMITS, state=st.sampled_from(HIDDEN_STATES), server=SERVER)
    def peek_hidden(self, queue: QueueName, limit: int, state: State, server: int) -> None:
        """Look at what is hidden page by page, to the end."""
        on, shown = self._server(server), [MessageId("")]
        while len(shown) <= 1 + len(self._hidden(queue, state)):
            look = partial(
                Store.peek, queue=queue, limit=limit, after=shown[-1] or None, state=state
            )
            peeked = self._unless_missing(queue, on, look)
            if not peeked:
                break
            shown += [each.message_id for each in peeked]
            for each in peeked:
                message = self.queues[queue][each.message_id]
                assert (each.state, each.receive_count) == (state, message.count)
                assert on.run(body_of(on.store, each)) == message.body
        assert sorted(shown[1:]) == self._hidden(queue, state)
        # The id of a producer does not say when its message was published.
        of_servers = [each for each in shown[1:] if is_server_id(each)]
        assert of_servers == sorted(of_servers)

    def _hidden(self, queue: QueueName, state: State) -> list[MessageId]:
        messages = self.queues.get(queue, {})
        return sorted(
            each
            for each, message in messages.items()
            if message.visible_at is not None and bool(message.lease) == (state is State.LEASED)
        )

    @precondition(Model.has_messages)
    @rule(index=INDEX, server=SERVER)
    def peek_by_id(self, index: int, server: int) -> None:
        queue, message_id = self._pick(index)
        on = self._server(server)
        message = self.queues[queue][message_id]

        peeked = on.run(on.store.peek_at(queue, message_id))

        hidden = "leased" if message.lease else "delayed"
        assert peeked.state == ("ready" if message.visible_at is None else hidden)
        assert peeked.receive_count == message.count
        assert on.run(body_of(on.store, peeked)) == message.body

    def adopt_stamp(self, queue: QueueName, message: ModelMessage, message_id: MessageId) -> None:
        """Take over whichever end of the lease a death left: times in the model are far apart."""
        path = self.root / "delay" / f"{queue}:{message_id}"
        if message.visible_at is not None and path.exists():
            left = (path.stat().st_mtime_ns - time.time_ns()) / SECOND_NS
            message.visible_at = self.now + round(left / 100) * 100
