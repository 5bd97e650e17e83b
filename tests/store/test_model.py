"""The store against a model: whatever is done, and wherever a kill cuts it, both agree."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test
from structlog.testing import capture_logs

from mq.errors import StoreUnavailable
from mq.names import MessageId, QueueName
from mq.store.store import Store
from tests.support.lease_model import LeaseModel
from tests.support.messages import names_in, read_seal
from tests.support.model import INDEX, QUEUES, SECONDS, SERVER, SIZES, Model, ModelMessage
from tests.support.producers import BATCHES, NUMBERS, Producers, own_id
from tests.support.stores import body_of, publish, publish_as

pytestmark = pytest.mark.slow

CALLS = st.integers(0, 14)
"""How many changes reach the disk before the process is dead."""


class Everything(LeaseModel, Producers):
    """All that clients may do."""


class TwoServers(Everything):
    """Any server may do anything; each gives only what is ready, in no strict order."""

    servers = 2


class MortalServers(Everything):
    """Servers die in the middle of a call. What was answered holds; what was not, is whole."""

    servers = 2

    def _die_during(
        self, number: int, calls: int, work: Callable[[Store], Coroutine[Any, Any, Any]]
    ) -> bool:
        """Run `work` on a server that dies after `calls` changes; whether it was answered."""
        on = self._server(number)
        on.files.calls_left = calls
        try:
            on.run(work(on.store))
        except StoreUnavailable:
            return False
        else:
            return True
        finally:
            on.kill()
            self._start_again(number)

    def _adopt(self, queue: QueueName, message_id: MessageId, seconds: int = 0) -> bool:
        """Take a message over from the disk as it is there; False if it was removed."""
        message = self.queues[queue].setdefault(message_id, ModelMessage(b""))
        path = self.root / "queues" / queue / message_id
        if path.exists():
            message.visible_at = None
        else:
            path = self.root / "delay" / f"{queue}:{message_id}"
            if not path.exists():
                assert (self.root / "remove" / f"{queue}:{message_id}").exists()
                self.note_removed(queue, message_id)
                return False
            if message.visible_at is None:
                message.visible_at = self.now + seconds
        seal = read_seal(path)
        assert message.count - 1 <= seal.receive_count <= message.count + 1
        message.count, message.lease = seal.receive_count, seal.lease
        return True

    @precondition(lambda self: self.queues)
    @rule(index=INDEX, size=SIZES, calls=CALLS, server=SERVER)
    def die_during_publish(self, index: int, size: int, calls: int, server: int) -> None:
        queue = sorted(self.queues)[index % len(self.queues)]
        body = self._body(size)
        answered = self._die_during(server, calls, lambda store: publish(store, body, queue))

        on_disk = set(names_in(self.root / "queues" / queue))
        new = on_disk - set(self._ready(queue))
        assert len(new) == 1 or (not new and not answered)
        for message_id in map(MessageId, new):
            self.queues[queue][message_id] = ModelMessage(body)

    @precondition(lambda self: self.queues)
    @rule(index=INDEX, number=NUMBERS, size=SIZES, calls=CALLS, server=SERVER)
    def die_during_publish_own(
        self, index: int, number: int, size: int, calls: int, server: int
    ) -> None:
        """Whatever came of it: sent again it is there once."""
        queue = sorted(self.queues)[index % len(self.queues)]
        message_id, body = own_id(queue, number), b"o" * size
        if self._published_before(queue, message_id) is not None:
            return
        answered = self._die_during(
            server, calls, lambda store: publish_as(store, body, queue, message_id)
        )

        exists = (self.root / "queues" / queue / message_id).exists()
        assert exists or not answered
        self.gone.discard(message_id)
        if exists:
            self.queues[queue][message_id] = ModelMessage(body)
        self._publish_own(queue, message_id, body, self._server(server))

    @precondition(lambda self: self.queues)
    @rule(index=INDEX, delays=BATCHES, calls=st.integers(0, 40), server=SERVER)
    def die_during_batch(self, index: int, delays: list[int], calls: int, server: int) -> None:
        queue = sorted(self.queues)[index % len(self.queues)]
        entries = self._batch(delays)
        answered = self._die_during(
            server, calls, lambda store: store.publish_batch(queue, entries)
        )

        ids = self.find_batch(queue, entries)
        assert len(ids) == len(entries) or (not ids and not answered)
        if ids:
            assert ids == sorted(ids)
            self.note_batch(queue, ids, entries, delays)

    @precondition(lambda self: self.queues)
    @rule(index=INDEX, seconds=SECONDS, calls=CALLS, server=SERVER)
    def die_during_receive(self, index: int, seconds: int, calls: int, server: int) -> None:
        queue = sorted(self.queues)[index % len(self.queues)]
        ready = self._ready(queue)

        async def receive(store: Store) -> None:
            received = await store.receive(queue, seconds)
            assert (received is None) == (not ready)
            if received is not None:
                await body_of(store, received)

        answered = self._die_during(server, calls, receive)

        for message_id in ready:
            self._adopt(queue, message_id, seconds)
        assert len(ready) - len(self._ready(queue)) in ((bool(ready),) if answered else (0, 1))

    @precondition(Model.has_messages)
    @rule(index=INDEX, seconds=SECONDS, calls=CALLS, server=SERVER)
    def die_during_take_by_id(self, index: int, seconds: int, calls: int, server: int) -> None:
        """The message is under its earlier lease, or the new one, until one of the two ends."""
        queue, message_id = self._pick(index)
        message = self.queues[queue][message_id]
        ends = {message.visible_at, self.now + seconds}

        async def take(store: Store) -> None:
            await body_of(store, await store.take(queue, message_id, seconds))

        answered = self._die_during(server, calls, take)

        assert self._adopt(queue, message_id, seconds)
        self.adopt_stamp(queue, message, message_id)
        assert message.visible_at in ({self.now + seconds} if answered else ends)

    @precondition(Model.has_messages)
    @rule(index=INDEX, calls=CALLS, server=SERVER)
    def die_during_release_by_id(self, index: int, calls: int, server: int) -> None:
        queue, message_id = self._pick(index)
        self._die_during(server, calls, lambda store: store.release_by_id(queue, message_id))

        self._adopt_released(queue, message_id)

    def _adopt_released(self, queue: QueueName, message_id: MessageId) -> None:
        """It may be a dead letter by now."""
        dead = QueueName(f"{queue}.dead")
        if (self.root / "queues" / dead).exists():
            self.queues.setdefault(dead, {})
        if (self.root / "queues" / dead / message_id).exists():
            self.queues[dead][message_id] = self.queues[queue].pop(message_id)
            queue = dead
        assert self._adopt(queue, message_id)

    @precondition(Model.has_messages)
    @rule(index=INDEX, calls=CALLS, server=SERVER)
    def die_during_remove(self, index: int, calls: int, server: int) -> None:
        queue, message_id = self._pick(index)
        answered = self._die_during(server, calls, lambda store: store.remove(queue, message_id))

        assert not self._adopt(queue, message_id) or not answered

    @precondition(lambda self: self.receipts)
    @rule(index=INDEX, calls=CALLS, server=SERVER)
    def die_during_release(self, index: int, calls: int, server: int) -> None:
        receipt = self.receipts[index % len(self.receipts)]
        self._die_during(server, calls, lambda store: store.put_back(receipt))

        if receipt.message_id in self.queues.get(receipt.queue, {}):
            self._adopt_released(receipt.queue, receipt.message_id)

    @rule(queue=QUEUES, calls=CALLS, server=SERVER)
    def die_during_create(self, queue: QueueName, calls: int, server: int) -> None:
        answered = self._die_during(server, calls, lambda store: store.create_queue(queue))

        exists = (self.root / "queues" / queue).exists()
        assert exists or (not answered and queue not in self.queues)
        if exists:
            self.queues.setdefault(queue, {})

    @precondition(lambda self: self.queues)
    @rule(index=INDEX, calls=CALLS, server=SERVER)
    def die_during_delete(self, index: int, calls: int, server: int) -> None:
        queue = sorted(self.queues)[index % len(self.queues)]
        answered = self._die_during(server, calls, lambda store: store.delete_queue(queue))

        exists = (self.root / "queues" / queue).exists()
        assert not (exists and answered)
        if not exists:
            self.gone |= self.queues.pop(queue).keys()


def _check(machine: type[Model], max_examples: int) -> None:
    limits = settings(
        max_examples=max_examples,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    with capture_logs():
        run_state_machine_as_test(machine, settings=limits)


def test_one_server_does_what_the_model_says_in_strict_order() -> None:
    _check(Everything, max_examples=30)


def test_two_servers_together_do_what_the_model_says() -> None:
    _check(TwoServers, max_examples=20)


def test_servers_that_die_anywhere_keep_what_they_answered() -> None:
    _check(MortalServers, max_examples=40)
