"""What servers, the mover and the reaper do by themselves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from mq.config import ReaperConfig
from mq.disk.files import Files
from mq.errors import QueueNotFound
from mq.lifecycle import Folder
from mq.store.indexing import relist
from mq.store.queue.expiry import expire, queues_to_expire
from mq.store.store import Store
from mq_reaper.reaper import Reaper
from tests.crash.peers.story import MAX_RECEIVES, MessageChange, PeerRequest, PlayedStory
from tests.support.redelivery import move_due


class Sweep(PeerRequest):
    """Deliver what was left in `new`, and end what was left of deletions and purges."""

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        return change.is_delivery()


class Expire(PeerRequest):
    """Remove what is too old."""

    async def ask(self, store: Store) -> None:
        for queue in queues_to_expire(store._work):
            try:
                await store.run(partial(expire, queue=queue))
            except QueueNotFound:
                continue

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        before = change.before
        return change.is_expiry(story) and before is not None and before.is_ready

    def check(self, story: PlayedStory) -> None:
        if story.is_whole and story.is_alone:
            world = story.last
            late = {each for queue in world.settings for each in world.ready(queue)}
            for each in late:
                assert not world.is_expired(world.messages[each].queue, each), each


class Relist(PeerRequest):
    """Compare each index with its folder."""

    async def ask(self, store: Store) -> None:
        for queue in store._work.ready.names():
            try:
                await store.run(partial(relist, queue=queue))
            except QueueNotFound:
                continue


class Redeliver(PeerRequest):
    """One pass of a mover that has just started."""

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        before, after = change.before, change.after
        if before is None or after is None or not change.is_return(story):
            return False
        is_due = before.due_ns <= change.later.now_ns
        return is_due and (before.lease, before.receives) == (after.lease, after.receives)

    def check(self, story: PlayedStory) -> None:
        if story.is_whole and story.is_alone:
            first = story.worlds[0]
            left = [
                each
                for each, seen in story.last.messages.items()
                if seen.place is Folder.DELAY and seen.due_ns <= first.now_ns
            ]
            assert left == []


class Reap(PeerRequest):
    """One pass of a reaper that keeps nothing."""

    def check(self, story: PlayedStory) -> None:
        assert isinstance(story.outcome, int)


def move_once(root: Path, files: Files) -> Callable[[], None]:
    return partial(move_due, root, files, MAX_RECEIVES)


def reap_once(root: Path, files: Files) -> Callable[[], int]:
    config = ReaperConfig(root / "remove")

    def reap() -> int:
        with closing(Reaper(config, files)) as reaper:
            return reaper.reap()

    return reap
