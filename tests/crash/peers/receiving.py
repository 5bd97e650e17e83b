"""Leases that begin, go on and end."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any

from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.store.by_id import Guard
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from tests.crash.peers.story import ById, MessageChange, PeerRequest, PlayedStory
from tests.crash.peers.world import World
from tests.support.stores import body_of

DEFAULT_SECONDS = 30.0
"""The visibility of all servers."""


async def read(store: Store, received: Iterable[Received]) -> list[tuple[Received, bytes]]:
    """Read the bodies, and close the files."""
    read = [(each, await body_of(store, each)) for each in received]
    for each, _ in read:
        each.close(store._work.files)
    return read


def check_lease(story: PlayedStory, received: Received, body: bytes) -> None:
    """Compare what a receiver got with what this request wrote."""
    message_id = received.message_id
    assert story.bodies[message_id] == body
    mine = [each for each in story.mine[message_id] if each.after is not None]
    after = mine[-1].after
    assert after is not None
    assert after.place is Folder.DELAY
    assert (after.lease, after.receives) == (received.lease, received.receive_count)
    assert after.due_ns == received.visible_ns


class Receive(PeerRequest):
    """Receive up to `limit` messages, for the usual time if `seconds` is None."""

    def __init__(self, queue: QueueName, limit: int, seconds: float | None) -> None:
        super().__init__(queue)
        self.queue, self.limit, self.seconds = queue, limit, seconds

    async def ask(self, store: Store) -> list[tuple[Received, bytes]]:
        return await read(store, await store.receive_many(self.queue, self.limit, self.seconds))

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        before, after, mine = change.before, change.after, story.mine[change.message_id]
        if change.is_expiry(story):
            # One that it was late with is given back, and then is too old.
            is_in = before is not None and before.queue == self.queue
            return is_in and before is not None and (before.is_ready or bool(mine))
        if before is None or after is None or before.queue != self.queue:
            return self._was_moved_by_hand(change, story)
        if mine and change.is_uncounted():
            return True  # It was late, and the mover had brought the message back.
        first = story.first(change)
        is_taken = after.receives == first.receives + 1 and after.lease not in (0, first.lease)
        if before.place is Folder.DELAY:
            # It was late: the message is back as if it had not been received, or taken again.
            return bool(mine) and (change.is_return(story) or is_taken)
        if after.place is Folder.DELAY:
            return before.is_ready and change.is_within(self.queue) and is_taken
        is_as_before = (after.lease, after.receives) == (first.lease, first.receives)
        return before.is_ready and after.is_ready and (is_taken or is_as_before)

    def _was_moved_by_hand(self, change: MessageChange, story: PlayedStory) -> bool:
        """Whether a person moved the message to another queue just before this wrote its lease."""
        before, after = change.before, change.after
        was_here = story.ever(lambda world: world.is_in(self.queue, change.message_id))
        if not was_here or before is None or after is None or before[:2] != after[:2]:
            return False
        return before.is_ready and after.receives == before.receives + 1

    def check(self, story: PlayedStory) -> None:
        taken: list[tuple[Received, bytes]] = story.outcome
        assert len(taken) <= self.limit
        if story.was_missing(self.queue):
            return  # What it took goes with the queue.
        for received, body in taken:
            check_lease(story, received, body)
            assert self._is_usual_time(story, received)
        ids = [received.message_id for received, _ in taken]
        leased = story.mine_to(Folder.DELAY, self.queue)
        # One that it was late with may have been redelivered before it was given back.
        assert leased & story.firsts.keys() <= {*ids} <= leased, self
        self._check_left(story, {*ids})
        if story.is_whole:
            self._check_choice(story, ids)

    def _is_usual_time(self, story: PlayedStory, received: Received) -> bool:
        seconds = {
            world.setting(self.queue, "visibility", DEFAULT_SECONDS)
            if self.seconds is None
            else self.seconds
            for world in story.worlds
        }
        first, last = story.worlds[0].now_ns, story.last.now_ns
        return any(
            first <= received.visible_ns - int(each * 1e9) <= last + 1_000_000 for each in seconds
        )

    def _check_left(self, story: PlayedStory, taken: set[MessageId]) -> None:
        """What was touched and not taken is as it was before."""
        for message_id in story.mine.keys() - taken:
            first, left = story.mine[message_id][0].before, story.last.messages.get(message_id)
            if first is not None and left is not None and story.left_alone(message_id):
                assert left.receives == first.receives, self

    def _check_choice(self, story: PlayedStory, ids: list[MessageId]) -> None:
        """It takes the oldest; those that another server is about to take come last."""
        world = story.worlds[0]
        if world.is_paused(self.queue):
            assert ids == []
            return
        free = [each for each in self._takeable(world, story) if each not in world.held]
        free.sort(key=world.reserved.__contains__)
        assert {*ids} == {*free[: self.limit]}, (self, free, ids)

    def _takeable(self, world: World, story: PlayedStory) -> list[MessageId]:
        gone = story.removed()
        return [each for each in world.ready(self.queue) if each not in gone]


class Take(ById):
    """Take that message, or prolong its lease if `leases` are given."""

    def __init__(
        self, queue: QueueName, message_id: MessageId, leases: frozenset[int] | None, seconds: float
    ) -> None:
        super().__init__(queue, message_id, leases)
        self.seconds = seconds

    async def ask(self, store: Store) -> tuple[Received, bytes]:
        guard = None if self.leases is None else Guard(frozenset(self.leases))
        received = await store.take(self.queue, self.message_id, self.seconds, guard)
        [taken] = await read(store, [received])
        return taken

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        if not self.is_meant(change, story):
            return False
        if change.is_expiry(story):
            return True
        before, after = change.before, change.after
        if self._is_late(change, story):
            return True
        if before is None or after is None or not change.is_within(self.queue):
            return False
        first = story.first(change)
        is_kept = (after.lease, after.receives) == (first.lease, first.receives)
        is_fresh = after.receives == first.receives + 1 and after.lease not in (0, first.lease)
        return (is_kept or (is_fresh and self.leases is None)) and not (
            before.place is Folder.DELAY and after.is_ready
        )

    def _is_late(self, change: MessageChange, story: PlayedStory) -> bool:
        """Whether it gives back a message whose lease was over before it could answer."""
        mine = story.mine[change.message_id]
        is_back = change.is_return(story) or change.is_uncounted()
        return self.leases is None and bool(mine) and is_back

    def check(self, story: PlayedStory) -> None:
        received, body = story.outcome
        assert received.message_id == self.message_id
        if story.was_missing(self.queue):
            return
        check_lease(story, received, body)
        assert self.leases is None or received.lease in self.leases
        if story.left_alone(self.message_id):
            assert story.last.messages[self.message_id].lease == received.lease


class Release(ById):
    """End a lease or a delay by id."""

    def ask(self, store: Store) -> Coroutine[Any, Any, None]:
        guard = None if self.leases is None else Guard(frozenset(self.leases))
        return store.release_by_id(self.queue, self.message_id, guard)

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        before, after = change.before, change.after
        if not self.is_meant(change, story) or before is None or after is None:
            return False
        if change.is_return(story):
            return (after.lease, after.receives) == (0, before.receives)
        is_ended = after.lease in (0, before.lease)
        return change.is_within(self.queue) and before.place is after.place and is_ended

    def check(self, story: PlayedStory) -> None:
        if story.left_alone(self.message_id) and not story.was_missing(self.queue):
            seen = story.last.messages[self.message_id]
            assert (seen.is_ready, seen.lease) == (True, 0), self


class PutBack(PeerRequest):
    """Give back what a receiver never got. It never fails."""

    def __init__(self, received: Received) -> None:
        super().__init__()
        self.received = received

    def ask(self, store: Store) -> Coroutine[Any, Any, None]:
        return store.put_back(self.received)

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        before, after, received = change.before, change.after, self.received
        if before is None or after is None or change.message_id != received.message_id:
            return False
        if change.is_uncounted():
            return before.lease == received.lease
        first = story.first(change)
        if first.lease != received.lease or before.place is not Folder.DELAY:
            return False
        is_back = after.receives in (first.receives, max(first.receives - 1, 0))
        return is_back and (change.is_return(story) or change.is_within(received.queue))
