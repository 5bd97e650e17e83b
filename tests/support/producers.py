"""What producers may ask for besides: delays, ids of their own, batches. Part of the model."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from mq.errors import IdTaken
from mq.ids import order_key
from mq.names import MessageId, QueueName
from mq.store.publishing.publish import Entry
from mq.store.store import Store
from tests.support.messages import read_seal
from tests.support.model import QUEUES, SECONDS, SERVER, SIZES, Model, ModelMessage
from tests.support.stores import MortalStore, batch_of, draft_of, publish_as

NUMBERS = st.integers(0, 2)
BATCHES = st.lists(st.sampled_from([0, 100, 1_000]), min_size=1, max_size=6)
"""The delay of each message, in seconds."""


def own_id(queue: QueueName, number: int) -> MessageId:
    """Return an id for a queue: one is used in one queue alone."""
    return MessageId(f"own-{queue.replace('.', '-')}-{number}")


class Producers(Model):
    """The model, and all that a publish can ask for."""

    def _ready(self, queue: QueueName) -> list[MessageId]:
        """Return the ready messages in the order of publication. An own id says nothing of its
        time, but its seal does."""
        return sorted(super()._ready(queue), key=lambda each: self._order_key(queue, each))

    def _order_key(self, queue: QueueName, message_id: MessageId) -> str:
        if not message_id.startswith("own-"):
            return message_id
        places = (f"queues/{queue}/{message_id}", f"delay/{queue}:{message_id}")
        path = next(path for place in places if (path := self.root / place).exists())
        return order_key(message_id, read_seal(path).published_ns)

    @rule(queue=QUEUES, size=SIZES, seconds=SECONDS, server=SERVER)
    def publish_delayed(self, queue: QueueName, size: int, seconds: int, server: int) -> None:
        body = self._body(size)
        published = self._unless_missing(
            queue,
            self._server(server),
            lambda store: publish_as(store, body, queue, delay_seconds=seconds),
        )
        if published is not None:
            assert published.visible_ns is not None
            self.queues[queue][published.message_id] = ModelMessage(body, self.now + seconds)

    @rule(queue=QUEUES, number=NUMBERS, size=SIZES, server=SERVER)
    def publish_own(self, queue: QueueName, number: int, size: int, server: int) -> None:
        if queue not in self.queues:
            return
        self._publish_own(queue, own_id(queue, number), b"o" * size, self._server(server))

    def _publish_own(
        self, queue: QueueName, message_id: MessageId, body: bytes, on: MortalStore
    ) -> None:
        """Publish under an own id. What comes of it is known: from the model, or from the file that
        was removed."""
        earlier = self._published_before(queue, message_id)
        if earlier is not None and earlier != body:
            with pytest.raises(IdTaken):
                on.run(publish_as(on.store, body, queue, message_id))
            return
        published = on.run(publish_as(on.store, body, queue, message_id))
        assert published.is_duplicate == (earlier is not None)
        if earlier is None:
            self.gone.discard(message_id)
            self.queues[queue][message_id] = ModelMessage(body)

    def _published_before(self, queue: QueueName, message_id: MessageId) -> bytes | None:
        dead = QueueName(f"{queue}.dead")
        for each in (queue, dead):
            message = self.queues.get(each, {}).get(message_id)
            if message is not None:
                return message.body
        for each in (queue, dead):
            removed = self.root / "remove" / f"{each}:{message_id}"
            if removed.exists():
                return removed.read_bytes()
        return None

    def _batch(self, delays: list[int]) -> list[Entry]:
        return batch_of(*(draft_of(self._body(10), None, seconds) for seconds in delays))

    @rule(queue=QUEUES, delays=BATCHES, server=SERVER)
    def publish_batch(self, queue: QueueName, delays: list[int], server: int) -> None:
        entries = self._batch(delays)

        async def publish(store: Store) -> list[MessageId]:
            return [each.message_id for each in await store.publish_batch(queue, entries)]

        ids = self._unless_missing(queue, self._server(server), publish)
        if ids is not None:
            assert ids == sorted(ids)
            self.note_batch(queue, ids, entries, delays)

    def note_batch(
        self, queue: QueueName, ids: list[MessageId], entries: list[Entry], delays: list[int]
    ) -> None:
        for message_id, entry, seconds in zip(ids, entries, delays, strict=True):
            visible_at = self.now + seconds if seconds else None
            self.queues[queue][message_id] = ModelMessage(entry.draft.body or b"", visible_at)

    def find_batch(self, queue: QueueName, entries: list[Entry]) -> list[MessageId]:
        """Return the ids of the messages of a batch that are on disk, in the order of its lines."""
        paths = {
            path.read_bytes(): MessageId(path.name.rpartition(":")[2])
            for pattern in (f"queues/{queue}/*", f"delay/{queue}:*")
            for path in self.root.glob(pattern)
        }
        bodies = [entry.draft.body or b"" for entry in entries]
        return [paths[body] for body in bodies if body in paths]
