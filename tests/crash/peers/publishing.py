"""Messages that come: single ones and batches, under ids of their own or not."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from mq.errors import IdTaken, MQError
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.store.publishing.publish import Published
from mq.store.store import Store
from tests.crash.peers.story import MessageChange, PeerRequest, PlayedStory
from tests.support.stores import batch_of, draft_of, publish_as


class Publish(PeerRequest):
    """Publish bodies, each under its id unless that is None: one, or several as a batch."""

    def __init__(
        self, queue: QueueName, bodies: Sequence[bytes], ids: Sequence[MessageId | None],
        delay_seconds: float, is_batch: bool,
    ) -> None:  # fmt: skip
        super().__init__(queue)
        self.queue, self.bodies, self.ids = queue, bodies, ids
        self.delay_seconds, self.is_batch = delay_seconds, is_batch

    async def ask(self, store: Store) -> list[Published]:
        if not self.is_batch:
            [body], [own] = self.bodies, self.ids
            return [await publish_as(store, body, self.queue, own, self.delay_seconds)]
        drafts = [
            draft_of(body, own, self.delay_seconds)
            for body, own in zip(self.bodies, self.ids, strict=True)
        ]
        return await store.publish_batch(self.queue, batch_of(*drafts))

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        mine = story.mine[change.message_id]
        if change.before is None:
            after = change.after
            assert after is not None
            is_delayed = self.delay_seconds > 0
            is_due = not is_delayed or len(story.worlds) > 2
            body = story.bodies[change.message_id] = after.path.read_bytes()
            return (
                body in self.bodies
                and after.queue == self.queue
                and (after.lease, after.receives) == (0, 0)
                and (after.place is not Folder.DELAY or is_delayed)
                and (after.place is not Folder.QUEUES or is_due)
            )
        if change.after is None:
            # It may take back what nobody was told of, and put away what is not alone.
            return bool(mine) and change.before.place is Folder.NEW
        # One of a producer's id may have been left by another process.
        return change.is_delivery() and (bool(mine) or change.message_id in self.ids)

    def check(self, story: PlayedStory) -> None:
        published: list[Published] = story.outcome
        assert len(published) == len(self.bodies)
        if story.was_missing(self.queue):
            return
        for body, own, each in zip(self.bodies, self.ids, published, strict=True):
            message_id = each.message_id
            assert own in (None, message_id)
            assert story.bodies[message_id] == body
            is_new = any(change.before is None for change in story.mine[message_id])
            assert each.is_duplicate == (not is_new), self
            if is_new and story.left_alone(message_id):
                assert story.last.is_in(self.queue, message_id), self
                assert story.last.messages[message_id].place is not Folder.NEW or self.is_batch
        ids = [each.message_id for each in published]
        if self.is_batch and not any(self.ids):
            assert ids == sorted(ids)

    def check_missing(self, story: PlayedStory) -> None:
        self._check_nothing(story)

    def _check_nothing(self, story: PlayedStory) -> None:
        """Nobody was told of it, and nobody gets it."""
        left = [each for each in story.mine if story.last.is_in(self.queue, each)]
        assert left == [] or not all(map(story.left_alone, left)), self

    def check_refusal(self, story: PlayedStory, error: MQError) -> None:
        assert isinstance(error, IdTaken), error
        known = [each for each in self.ids if each is not None and each in story.bodies]
        assert any(story.bodies[each] not in self.bodies for each in known), error
        self._check_nothing(story)

    def may_be_refused(self, story: PlayedStory) -> bool:
        """Whether the queue is full."""
        return story.ever(
            lambda world: (
                len(world.ready(self.queue)) + len(self.bodies)
                > world.setting(self.queue, "max-messages", float("inf"))
            )
        )


class Create(PeerRequest):
    def __init__(self, queue: QueueName) -> None:
        super().__init__()
        self.queue = queue

    def ask(self, store: Store) -> Coroutine[Any, Any, bool]:
        return store.create_queue(self.queue)

    def check(self, story: PlayedStory) -> None:
        if story.is_alone:
            assert self.queue in story.last.settings
            assert story.outcome == (self.queue not in story.worlds[0].settings)


class ChangeSettings(PeerRequest):
    def __init__(self, queue: QueueName, changes: dict[str, str]) -> None:
        super().__init__(queue)
        self.queue, self.changes = queue, changes

    def ask(self, store: Store) -> Coroutine[Any, Any, None]:
        return store.change_settings(self.queue, self.changes)

    def check(self, story: PlayedStory) -> None:
        if story.is_alone:
            found = story.last.settings[self.queue]
            assert {name: found.get(name, "") for name in self.changes} == self.changes
