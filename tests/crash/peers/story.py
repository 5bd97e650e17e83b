"""What was asked for, what it changed, and whether both are as they may be.

Only one actor runs at a time, so whatever changes meanwhile is its doing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine
from typing import Any, NamedTuple

from mq.errors import LeaseMismatch, MessageNotFound, MQError, QueueNotFound, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.store.store import Store
from tests.crash.peers.world import Seen, World

MAX_RECEIVES = 3
"""What the flags of all servers and of the mover say."""


class MessageChange(NamedTuple):
    """What became of one message between two stops of an actor."""

    message_id: MessageId
    before: Seen | None
    after: Seen | None
    earlier: World
    later: World

    def is_within(self, queue: QueueName) -> bool:
        """Whether the message was in that queue and still is."""
        both = (self.before, self.after)
        return all(each is not None and each.queue == queue for each in both)

    def is_removal(self) -> bool:
        """Whether the message went, and its file can still be found."""
        return (
            self.before is not None and self.after is None and self.before.inode in self.later.gone
        )

    def is_delivery(self) -> bool:
        if self.before is None or self.after is None:
            return False
        is_on = self.before.place is Folder.NEW and self.after.place is not Folder.NEW
        return is_on and self.is_within(self.before.queue)

    def is_expiry(self, story: PlayedStory) -> bool:
        before = self.before
        if before is None or not self.is_removal():
            return False
        ttl_ns = max(world.setting(before.queue, "ttl", -1) for world in story.worlds) * 1e9
        return 0 <= ttl_ns <= self.later.now_ns - before.published_ns

    def is_uncounted(self) -> bool:
        """Whether a ready message lost its last receive and stayed where it was."""
        before, after = self.before, self.after
        if before is None or after is None or not before.is_ready or before[:2] != after[:2]:
            return False
        return (after.lease, after.receives) == (0, before.receives - 1)

    def is_return(self, story: PlayedStory) -> bool:
        """Whether the message went from `delay` to where it belongs."""
        before, after = self.before, self.after
        if before is None or after is None or before.place is not Folder.DELAY:
            return False
        places = {
            world.dead_letters(before.queue, after.receives, MAX_RECEIVES) or before.queue
            for world in story.worlds
        }
        return after.is_ready and after.queue in places


class PlayedStory:
    """One request: the worlds between its stops, and what it and others changed."""

    def __init__(self, first: World, bodies: dict[MessageId, bytes]) -> None:
        self.worlds = [first]
        self.bodies = bodies
        self.mine: dict[MessageId, list[MessageChange]] = defaultdict(list)
        self.firsts: dict[MessageId, Seen] = {}
        self.touched: set[MessageId] = set()
        self.is_alone = True
        self.is_dead = False
        self.outcome: Any = None

    @property
    def is_whole(self) -> bool:
        """Whether it never stopped."""
        return len(self.worlds) == 2

    @property
    def last(self) -> World:
        return self.worlds[-1]

    def ever(self, holds: Callable[[World], bool]) -> bool:
        return any(map(holds, self.worlds))

    def first(self, change: MessageChange) -> Seen:
        """Return what the message was before this request changed it, and nobody else since."""
        first = self.firsts.get(change.message_id, change.before)
        assert first is not None
        return first

    def takes_back(self, change: MessageChange) -> bool:
        """Whether the message has the seal again that it had before this request. A person's `mv`
        can make a move fail that has begun."""
        mine, before, after = self.mine[change.message_id], change.before, change.after
        if not mine or before is None or after is None or mine[0].before is None:
            return False
        seals = [(each.lease, each.receives) for each in (mine[0].before, after)]
        return before[:2] == after[:2] and seals[0] == seals[1]

    def note(self, change: MessageChange) -> None:
        if change.before is not None:
            self.firsts.setdefault(change.message_id, change.before)
        self.mine[change.message_id].append(change)

    def note_of_others(self, change: MessageChange) -> None:
        self.firsts.pop(change.message_id, None)
        self.touched.add(change.message_id)

    def was_missing(self, queue: QueueName) -> bool:
        return self.ever(lambda world: queue not in world.settings)

    def left_alone(self, message_id: MessageId) -> bool:
        return message_id not in self.touched

    def stayed(self, queue: QueueName) -> set[MessageId]:
        """The messages that were in the queue when this began, and that nobody else touched."""
        return {each for each in self.worlds[0].of_queue(queue) if self.left_alone(each)}

    def mine_to(self, place: Folder, queue: QueueName) -> set[MessageId]:
        """The messages that this moved there, and nowhere since."""
        lasting = {each: changes[-1].after for each, changes in self.mine.items()}
        return {
            each
            for each, after in lasting.items()
            if after is not None and (after.place, after.queue) == (place, queue)
        }

    def removed(self) -> set[MessageId]:
        return {each for each, changes in self.mine.items() if changes[-1].after is None}


class PeerRequest:
    """Something that an actor does. `queues` must all be there."""

    takes_locks = True
    """Whether it leaves alone what another one has locked."""

    def __init__(self, *queues: QueueName) -> None:
        self.queues = queues

    def __repr__(self) -> str:
        return f"{type(self).__name__}({vars(self)})"

    def ask(self, store: Store) -> Coroutine[Any, Any, Any]:
        raise NotImplementedError

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        """Whether this may make that change."""
        return False

    def may_delete(self, queue: QueueName) -> bool:
        return False

    def check(self, story: PlayedStory) -> None:
        """Check that the outcome is what became of it. Raises AssertionError."""

    def check_refusal(self, story: PlayedStory, error: MQError) -> None:
        raise error

    def judge(self, story: PlayedStory) -> None:
        error = story.outcome
        if isinstance(error, StoreUnavailable):
            assert not story.is_alone or self.may_be_refused(story), error
        elif isinstance(error, QueueNotFound):
            assert any(map(story.was_missing, self.queues)), error
            self.check_missing(story)
        elif isinstance(error, MQError):
            self.check_refusal(story, error)
        elif isinstance(error, BaseException):
            raise error
        else:
            self.check(story)

    def may_be_refused(self, story: PlayedStory) -> bool:
        """Whether 503 is an answer although nobody is in the way."""
        return False

    def check_missing(self, story: PlayedStory) -> None:
        """Check what must hold if a queue was not found."""


class ById(PeerRequest):
    """Something about one message, under one of those leases if there are any."""

    def __init__(
        self, queue: QueueName, message_id: MessageId, leases: Collection[int] | None
    ) -> None:
        super().__init__(queue)
        self.queue, self.message_id, self.leases = queue, message_id, leases

    def is_meant(self, change: MessageChange, story: PlayedStory) -> bool:
        """Whether the change is to that message, and it had the right lease when this began it."""
        if change.message_id != self.message_id or change.before is None:
            return False
        is_admitted = self.leases is None or story.first(change).lease in self.leases
        return is_admitted and change.before.queue == self.queue

    def check_refusal(self, story: PlayedStory, error: MQError) -> None:
        if not story.left_alone(self.message_id):
            return
        if isinstance(error, MessageNotFound):
            assert story.ever(lambda world: not world.shows(self.queue, self.message_id)), error
        elif isinstance(error, LeaseMismatch):
            assert self.leases is not None, error
            assert story.ever(self._has_other_lease), error
        else:
            raise error

    def _has_other_lease(self, world: World) -> bool:
        """Whether the message does not have the lease, perhaps because it is gone."""
        seen = world.messages.get(self.message_id)
        return seen is None or seen.lease not in (self.leases or ())
