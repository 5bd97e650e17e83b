"""Messages that go, and queues."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from mq.lifecycle import PurgeScope
from mq.names import MessageId, QueueName
from mq.store.store import Store
from tests.crash.peers.story import ById, MessageChange, PeerRequest, PlayedStory


class Remove(ById):
    """Remove a message; with leases, only under one of them."""

    def __init__(
        self, queue: QueueName, message_id: MessageId, leases: frozenset[int] | None
    ) -> None:
        super().__init__(queue, message_id, leases)
        self.takes_locks = leases is not None

    def ask(self, store: Store) -> Coroutine[Any, Any, None]:
        leases = None if self.leases is None else frozenset(self.leases)
        return store.remove(self.queue, self.message_id, leases)

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        return change.is_removal() and self.is_meant(change, story)

    def check(self, story: PlayedStory) -> None:
        if story.left_alone(self.message_id):
            assert not story.last.is_in(self.queue, self.message_id), self


class PurgeQueue(PeerRequest):
    takes_locks = False

    def __init__(self, queue: QueueName, scope: PurgeScope) -> None:
        super().__init__(queue)
        self.queue, self.scope = queue, scope

    def ask(self, store: Store) -> Coroutine[Any, Any, int]:
        return store.purge(self.queue, self.scope)

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        before = change.before
        if before is None or before.queue != self.queue:
            return False
        is_all = self.scope is PurgeScope.ALL
        return change.is_delivery() or (change.is_removal() and (is_all or before.is_ready))

    def check(self, story: PlayedStory) -> None:
        first = story.worlds[0].of_queue(self.queue)
        meant = {
            each for each, seen in first.items() if self.scope is PurgeScope.ALL or seen.is_ready
        }
        left = meant & story.last.of_queue(self.queue).keys()
        if self.scope is PurgeScope.READY:
            left = set(filter(story.left_alone, left))
        assert {each for each in left if not self._came_again(story, each)} == set(), self
        assert story.outcome == len(story.removed()), self

    def _came_again(self, story: PlayedStory, message_id: str) -> bool:
        """Whether it was elsewhere meanwhile."""
        return story.ever(
            lambda world: all(each != message_id for each in world.of_queue(self.queue))
        )


class Delete(PeerRequest):
    takes_locks = False

    def __init__(self, queue: QueueName) -> None:
        super().__init__(queue)
        self.queue = queue

    def ask(self, store: Store) -> Coroutine[Any, Any, None]:
        return store.delete_queue(self.queue)

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        return (
            change.is_removal() and change.before is not None and change.before.queue == self.queue
        )

    def may_delete(self, queue: QueueName) -> bool:
        return queue == self.queue

    def check(self, story: PlayedStory) -> None:
        if story.is_alone:
            assert self.queue not in story.last.settings
        assert story.ever(lambda world: self.queue not in world.settings), self
