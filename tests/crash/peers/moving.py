"""Messages that go from one queue to another."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from mq.errors import IdTaken, MQError, QueueNotFound, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.store.by_id import Guard
from mq.store.moving.move import MovedMessages, Moving
from mq.store.moving.redrive import Redriven, redrive
from mq.store.store import Store
from tests.crash.peers.story import ById, MessageChange, PeerRequest, PlayedStory


def is_moved(
    change: MessageChange, source: QueueName, target: QueueName, story: PlayedStory
) -> bool:
    """Whether the message went from the one queue to the other, or is just about to. If that one is
    being deleted, the message goes with it; if the first one is, it may go just before."""
    before, after = change.before, change.after
    if before is None:
        was_there = story.worlds[0].is_in(source, change.message_id)
        is_there = after is not None and after.queue == target
        return was_there and is_there and story.was_missing(source)
    if before.queue != source:
        return False
    if after is None:
        return change.is_removal() and story.was_missing(target)
    if after.queue == target:
        return after.is_ready and (after.lease, after.receives) == (0, 0)
    return change.is_within(source) and before.place is after.place and after.lease == 0


def is_as_before(change: MessageChange, story: PlayedStory) -> bool:
    """Whether the message is again what it was before this request."""
    before, after = change.before, change.after
    return before is not None and after is not None and after[:5] == story.first(change)[:5]


class MoveReady(PeerRequest):
    """Move the oldest ready ones."""

    def __init__(self, source: QueueName, target: QueueName, limit: int) -> None:
        super().__init__(source, target)
        self.source, self.target, self.limit = source, target, limit

    def ask(self, store: Store) -> Coroutine[Any, Any, MovedMessages]:
        return store.move(Moving(self.source, self.target, "no use"), self.limit)

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        is_ready = change.before is None or change.before.is_ready
        moved = is_moved(change, self.source, self.target, story) or is_as_before(change, story)
        return is_ready and moved

    def check(self, story: PlayedStory) -> None:
        moved: MovedMessages = story.outcome
        mine = story.mine_to(Folder.QUEUES, self.target)
        # One that another actor brings back meanwhile may be moved again.
        moves = [each for changes in story.mine.values() for each in changes if self._is_move(each)]
        assert moved.number == len(moves) <= self.limit, self
        if story.is_whole and story.is_alone:
            ready = story.worlds[0].ready(self.source)
            left = [each for each in ready if each not in moved.taken + moved.held]
            most = int(story.last.setting(self.target, "max-messages", 1 << 30))
            room = max(most - len(story.worlds[0].ready(self.target)), 0)
            assert mine == {*left[: min(self.limit, room)]}, self

    def _is_move(self, change: MessageChange) -> bool:
        before, after = change.before, change.after
        is_from_there = before is None or before.queue == self.source
        return is_from_there and (after is None or after.queue == self.target)

    def may_be_refused(self, story: PlayedStory) -> bool:
        return is_full(story, self.target)


class MoveById(ById):
    """Move one message, in whatever state; with leases, only under one of them."""

    def __init__(
        self, source: QueueName, target: QueueName, message_id: MessageId,
        leases: frozenset[int] | None,
    ) -> None:  # fmt: skip
        super().__init__(source, message_id, leases)
        self.queues, self.target = (source, target), target

    async def ask(self, store: Store) -> None:
        guard = None if self.leases is None else Guard(frozenset(self.leases))
        moving = Moving(self.queue, self.target)
        [error] = await store.move_by_id(moving, [self.message_id], guard)
        if error is not None:
            raise error

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        is_mine = change.message_id == self.message_id and change.before is None
        return (is_mine or self.is_meant(change, story)) and (
            is_moved(change, self.queue, self.target, story) or is_as_before(change, story)
        )

    def check(self, story: PlayedStory) -> None:
        moved = story.mine_to(Folder.QUEUES, self.target) | story.removed()
        assert moved == {self.message_id}, self

    def check_refusal(self, story: PlayedStory, error: MQError) -> None:
        if isinstance(error, IdTaken):
            assert story.ever(lambda world: world.is_in(self.target, self.message_id)), error
        else:
            super().check_refusal(story, error)

    def may_be_refused(self, story: PlayedStory) -> bool:
        return is_full(story, self.target)


class Redrive(PeerRequest):
    """Bring dead letters back to the queues in which they died."""

    def __init__(self, source: QueueName, limit: int) -> None:
        super().__init__(source)
        self.source, self.limit = source, limit

    def ask(self, store: Store) -> Coroutine[Any, Any, Redriven]:
        return store.run(lambda work: redrive(work, self.source, self.limit, frozenset()))

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        after = change.after
        if change.before is None or not change.before.is_ready:
            return False
        if after is None:
            return change.is_removal() and any(map(story.was_missing, story.worlds[0].settings))
        return is_moved(change, self.source, after.queue, story) or is_as_before(change, story)

    def check(self, story: PlayedStory) -> None:
        redriven: Redriven = story.outcome
        assert {*redriven.moved} <= story.mine.keys(), self

    def judge(self, story: PlayedStory) -> None:
        """The queue in which a message died may be gone or full."""
        if not isinstance(story.outcome, QueueNotFound | StoreUnavailable):
            super().judge(story)


def is_full(story: PlayedStory, queue: QueueName) -> bool:
    return story.ever(
        lambda world: len(world.ready(queue)) >= world.setting(queue, "max-messages", float("inf"))
    )
