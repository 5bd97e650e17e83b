"""Looks, which change nothing."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from mq.lifecycle import Folder, State
from mq.names import MessageId, QueueName
from mq.store.queue.queues import QueueInfo
from mq.store.store import Store
from tests.crash.peers.story import ById, PeerRequest, PlayedStory
from tests.crash.peers.world import Seen, World
from tests.support.stores import body_of


def state_of(seen: Seen) -> State:
    if seen.place is not Folder.DELAY:
        return State.READY
    return State.LEASED if seen.lease else State.DELAYED


class Count(PeerRequest):
    def __init__(self, queue: QueueName) -> None:
        super().__init__(queue)
        self.queue = queue

    def ask(self, store: Store) -> Coroutine[Any, Any, QueueInfo]:
        return store.describe_queue(self.queue)

    def check(self, story: PlayedStory) -> None:
        info: QueueInfo = story.outcome
        if story.is_whole:
            found = [
                state_of(seen)
                for seen in story.last.of_queue(self.queue).values()
                if seen.place is not Folder.NEW
            ]
            assert (info.ready, info.leased, info.delayed) == (
                found.count(State.READY),
                found.count(State.LEASED),
                found.count(State.DELAYED),
            ), self


class Peek(PeerRequest):
    """Look at the first messages in a state, or at those behind `after`."""

    def __init__(self, queue: QueueName, limit: int, state: State) -> None:
        super().__init__(queue)
        self.queue, self.limit, self.state = queue, limit, state

    async def ask(self, store: Store) -> list[tuple[MessageId, State, int | None, bytes]]:
        peeked = await store.peek(self.queue, self.limit, state=self.state)
        found = [
            (each.message_id, each.state, each.receive_count, await body_of(store, each))
            for each in peeked
        ]
        for each in peeked:
            each.close(store._work.files)
        return found

    def check(self, story: PlayedStory) -> None:
        shown = [each for each, *_ in story.outcome]
        assert len({*shown}) == len(shown) <= self.limit
        for message_id, state, count, body in story.outcome:
            assert state == self.state
            assert body == story.bodies[message_id]
            if story.is_whole:
                assert count == story.last.messages[message_id].receives, self
        if story.is_whole:
            meant = self._meant(story.last)
            assert {*shown} <= {*meant}, self
            assert len(shown) == min(self.limit, len(meant)), self
            if self.state is State.READY:
                assert shown == meant[: self.limit], self

    def _meant(self, world: World) -> list[MessageId]:
        if self.state is State.READY:
            return world.ready(self.queue)
        of_queue = world.of_queue(self.queue)
        return [
            each
            for each, seen in of_queue.items()
            if seen.place is Folder.DELAY and state_of(seen) is self.state
        ]


class PeekAt(ById):
    """Look at one message."""

    def __init__(self, queue: QueueName, message_id: MessageId) -> None:
        super().__init__(queue, message_id, None)

    async def ask(self, store: Store) -> tuple[str, int | None, bytes]:
        peeked = await store.peek_at(self.queue, self.message_id)
        found = peeked.state, peeked.receive_count, await body_of(store, peeked)
        peeked.close(store._work.files)
        return found

    def check(self, story: PlayedStory) -> None:
        state, count, body = story.outcome
        assert body == story.bodies[self.message_id]
        if story.left_alone(self.message_id) and not story.was_missing(self.queue):
            seen = story.last.messages[self.message_id]
            assert (state, count) == (state_of(seen), seen.receives), self
