"""What the queues should hold after any sequence of calls: `test_model.py` runs it.

Time passes by moving every stamp in `delay` back, and letting a mover come by.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from mq.errors import LeaseMismatch, MessageNotFound, QueueNotFound
from mq.names import MessageId, QueueName
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from tests.support.faults import MortalFiles
from tests.support.messages import SECOND_NS, names_in
from tests.support.redelivery import move_due
from tests.support.stores import MortalStore, body_of, publish

T = TypeVar("T")

QUEUES = st.sampled_from([QueueName("a"), QueueName("b"), QueueName("a.dead")])
SIZES = st.sampled_from([0, 10, 500, 131_072, 131_073, 200_000])
SECONDS = st.sampled_from([100, 1_000, 10_000])
INDEX = st.integers(0, 1_000)
SERVER = st.integers(0, 1)


@dataclass
class ModelMessage:
    """`visible_at` is None while it is ready. A move back to the queue has no barrier of its own:
    until the next one a power cut may undo it."""

    body: bytes
    visible_at: int | None = None
    lease: int = 0
    count: int = 0
    is_durable: bool = True


class Model(RuleBasedStateMachine):
    """What the queues should hold. With one server the order is strict."""

    servers = 1
    max_receives = 3

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory()
        self.root = Path(self._folder.name, "root")
        self.runner = asyncio.Runner()
        self.now = 0
        self.queues: dict[QueueName, dict[MessageId, ModelMessage]] = {}
        self.gone: set[str] = set()
        self.receipts: list[Received] = []
        self.bodies = 0
        self.running = [self._start() for _ in range(self.servers)]

    def teardown(self) -> None:
        for server in self.running:
            server.close()
        self.runner.close()
        self._folder.cleanup()

    def _new_files(self) -> MortalFiles:
        return MortalFiles()

    def _start(self) -> MortalStore:
        return MortalStore(self.root, self.runner, self._new_files(), self.max_receives)

    def _start_again(self, number: int) -> None:
        self.running[number % self.servers] = self._start()

    def _server(self, number: int) -> MortalStore:
        return self.running[number % self.servers]

    def _body(self, size: int) -> bytes:
        self.bodies += 1
        return (b"%d " % self.bodies * size)[:size]

    def _ready(self, queue: QueueName) -> list[MessageId]:
        messages = self.queues.get(queue, {})
        return sorted(each for each, message in messages.items() if message.visible_at is None)

    def _pick(self, index: int) -> tuple[QueueName, MessageId]:
        known = [(queue, each) for queue, messages in self.queues.items() for each in messages]
        return known[index % len(known)]

    def has_messages(self) -> bool:
        return any(self.queues.values())

    def _unless_missing(
        self, queue: QueueName, on: MortalStore, work: Callable[[Store], Coroutine[Any, Any, T]]
    ) -> T | None:
        """Return what `work` returns; None if there is no such queue, which it must then say."""
        if queue in self.queues:
            return on.run(work(on.store))
        with pytest.raises(QueueNotFound):
            on.run(work(on.store))
        return None

    # What clients do

    @initialize()
    def begin_with_a_queue(self) -> None:
        self.create(QueueName("a"), 0)

    @rule(queue=QUEUES, server=SERVER)
    def create(self, queue: QueueName, server: int) -> None:
        store = self._server(server)

        assert store.run(store.store.create_queue(queue)) == (queue not in self.queues)

        self.queues.setdefault(queue, {})

    @rule(queue=QUEUES, server=SERVER)
    def delete(self, queue: QueueName, server: int) -> None:
        self._unless_missing(queue, self._server(server), lambda s: s.delete_queue(queue))
        self.gone |= self.queues.pop(queue, {}).keys()

    @rule(queue=QUEUES, size=SIZES, server=SERVER)
    def publish(self, queue: QueueName, size: int, server: int) -> None:
        body = self._body(size)
        message_id = self._unless_missing(
            queue, self._server(server), lambda store: publish(store, body, queue)
        )
        if message_id is not None:
            assert message_id not in self.gone
            self.queues[queue][message_id] = ModelMessage(body)

    @rule(queue=QUEUES, seconds=SECONDS, server=SERVER)
    def receive(self, queue: QueueName, seconds: int, server: int) -> None:
        on = self._server(server)
        received = self._unless_missing(queue, on, lambda store: store.receive(queue, seconds))
        ready = self._ready(queue)
        if received is None:
            assert ready == []
            return
        assert received.message_id in (ready[:1] if self.servers == 1 else ready)
        assert on.run(body_of(on.store, received)) == self.note_received(received, seconds).body

    def note_received(self, received: Received, seconds: int) -> ModelMessage:
        message = self.queues[received.queue][received.message_id]
        assert received.receive_count == message.count + 1
        assert received.lease not in (0, message.lease)
        message.visible_at, message.is_durable = self.now + seconds, True
        message.lease, message.count = received.lease, message.count + 1
        self.receipts.append(received)
        return message

    @precondition(has_messages)
    @rule(index=INDEX, server=SERVER)
    def remove(self, index: int, server: int) -> None:
        queue, message_id = self._pick(index)
        on = self._server(server)

        on.run(on.store.remove(queue, message_id))

        self.note_removed(queue, message_id)

    def note_removed(self, queue: QueueName, message_id: MessageId) -> None:
        del self.queues[queue][message_id]
        self.gone.add(message_id)

    @precondition(lambda self: self.receipts)
    @rule(index=INDEX, server=SERVER)
    def remove_under_lease(self, index: int, server: int) -> None:
        receipt = self.receipts[index % len(self.receipts)]
        queue, message_id = receipt.queue, receipt.message_id
        message = self.queues.get(queue, {}).get(message_id)
        on = self._server(server)
        removal = on.store.remove(queue, message_id, frozenset({receipt.lease}))
        if queue not in self.queues:
            with pytest.raises(QueueNotFound):
                on.run(removal)
        elif message is None:
            # In `remove` the file keeps its last lease; a deleted queue's is with its folder.
            try:
                on.run(removal)
            except (LeaseMismatch, MessageNotFound):
                pass
        elif message.lease != receipt.lease:
            with pytest.raises(LeaseMismatch):
                on.run(removal)
        else:
            on.run(removal)
            self.note_removed(queue, message_id)

    @precondition(lambda self: self.receipts)
    @rule(index=INDEX, server=SERVER)
    def release(self, index: int, server: int) -> None:
        receipt = self.receipts[index % len(self.receipts)]
        on = self._server(server)

        on.run(on.store.put_back(receipt))

        self.note_released(receipt)

    def note_released(self, receipt: Received) -> None:
        """Take the receive back, even if the message is ready again because its lease was over."""
        message = self.queues.get(receipt.queue, {}).get(receipt.message_id)
        if message is not None and message.lease == receipt.lease:
            message.visible_at, message.lease, message.is_durable = None, 0, False
            message.count -= 1

    # What happens to them

    @rule(seconds=st.sampled_from([100, 1_000, 5_000]))
    def let_time_pass(self, seconds: int) -> None:
        self.now += seconds
        for path in (self.root / "delay").iterdir():
            due_ns = path.stat().st_mtime_ns - seconds * SECOND_NS
            os.utime(path, ns=(due_ns, due_ns))
        move_due(self.root, self._new_files(), self.max_receives)
        self._redeliver_in_the_model()
        for server in self.running:
            # What others put counts from when a server saw it: counting makes it look.
            for queue in self.queues:
                server.run(server.store.describe_queue(queue))

    def _redeliver_in_the_model(self) -> None:
        for queue in list(self.queues):
            for message_id, message in list(self.queues[queue].items()):
                if message.visible_at is not None and message.visible_at <= self.now:
                    message.visible_at, message.is_durable = None, False
                    self._bury(queue, message_id)

    def _bury(self, queue: QueueName, message_id: MessageId) -> None:
        """Make a dead letter of what was received often enough, when it comes back."""
        message = self.queues[queue][message_id]
        if 0 < self.max_receives <= message.count and not queue.endswith(".dead"):
            dead = self.queues.setdefault(QueueName(f"{queue}.dead"), {})
            dead[message_id] = self.queues[queue].pop(message_id)

    @rule(server=SERVER)
    def restart(self, server: int) -> None:
        self._server(server).close()
        self._start_again(server)

    # What must hold at any time

    @invariant()
    def disk_holds_what_the_model_does(self) -> None:
        leased = [
            f"{queue}:{each}"
            for queue, messages in self.queues.items()
            for each, message in messages.items()
            if message.visible_at is not None
        ]
        assert names_in(self.root / "queues") == sorted(self.queues)
        for queue in self.queues:
            assert names_in(self.root / "queues" / queue) == sorted(self._ready(queue))
        assert names_in(self.root / "delay") == sorted(leased)
        assert os.listdir(self.root / "new") == []

    @invariant()
    def nothing_is_damaged(self) -> None:
        assert not (self.root / "corrupt").exists()

    @rule(queue=QUEUES, server=SERVER)
    def count(self, queue: QueueName, server: int) -> None:
        info = self._unless_missing(
            queue, self._server(server), lambda store: store.describe_queue(queue)
        )
        if info is not None:
            ready = len(self._ready(queue))
            assert (info.ready, info.leased + info.delayed) == (
                ready,
                len(self.queues[queue]) - ready,
            )
            assert (info.oldest_age_seconds is None) == (ready == 0)
