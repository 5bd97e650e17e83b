"""Several stores, a mover and a reaper on one root, and what each of them has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from mq.names import MessageId
from tests.crash.enumeration.clock import StoppedClock
from tests.crash.enumeration.server import PlayedServer
from tests.crash.peers.chores import Sweep
from tests.crash.peers.receiving import DEFAULT_SECONDS
from tests.crash.peers.stepping import TO_THE_END, SteppedActor, SteppedFiles, stepped_time
from tests.crash.peers.story import MAX_RECEIVES, MessageChange, PeerRequest, PlayedStory
from tests.crash.peers.world import World, look

STORES = 3
PEERS = STORES - 1


class StoreActor(SteppedActor):
    """A server's store, which can be closed or killed, and opened again."""

    def __init__(self, root: Path, clock: StoppedClock) -> None:
        super().__init__()
        self._root, self._clock = root, clock
        self.server = self._open()

    def _open(self) -> PlayedServer:
        self.files = SteppedFiles()
        self.files.stop = self._stop
        return PlayedServer(
            self._root, self.files, self._clock, peers=PEERS, max_receives=MAX_RECEIVES,
            visibility_seconds=DEFAULT_SECONDS,
        )  # fmt: skip

    def work_on(self, request: PeerRequest) -> Callable[[], object]:
        """Return the work that a request is."""
        if isinstance(request, Sweep):
            return self.server.sweep
        return lambda: self.server.run_well(request.ask(self.server.store))[0]

    def close(self) -> None:
        self.server.close()

    def open_again(self) -> None:
        self.server.close()
        self.server = self._open()


class Referee:
    """Lets one actor work at a time, and judges what it does: each change by the request that it is
    working on, each answer by all that happened meanwhile."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = StoppedClock()
        self._stack = ExitStack()
        self._stack.enter_context(stepped_time(self.clock))
        self._stack.enter_context(capture_logs())
        self.stores = [StoreActor(root, self.clock) for _ in range(STORES)]
        self.others = [SteppedActor(), SteppedActor()]
        self.bodies: dict[MessageId, bytes] = {}
        self.at_work: dict[SteppedActor, tuple[PeerRequest, PlayedStory]] = {}
        self.world = self._look()
        self.steps = 0
        self.is_content = True

    def close(self) -> None:
        for actor in self.at_work:
            if actor.is_at_work:
                actor.go_on(TO_THE_END)
        for store in self.stores:
            store.close()
        self._stack.close()

    def _look(self) -> World:
        return look(self.root, self.clock.now_ns, with_locks=bool(self.at_work))

    def idle_stores(self) -> list[StoreActor]:
        return [each for each in self.stores if not each.is_at_work]

    def idle_others(self) -> list[SteppedActor]:
        return [each for each in self.others if not each.is_at_work]

    def is_doing(self, *kinds: type[PeerRequest]) -> bool:
        """Whether anybody is at work on such a request."""
        return any(isinstance(request, kinds) for request, _ in self.at_work.values())

    # Work

    def begin(
        self, actor: SteppedActor, work: Callable[[], object], request: PeerRequest, calls: int
    ) -> Any:
        """Let an actor begin. Returns the outcome if it ends, else None."""
        self.world = self._look()
        story = PlayedStory(self.world, self.bodies)
        for _, other in self.at_work.values():
            other.is_alone = story.is_alone = False
        self.at_work[actor] = request, story
        actor.begin(work, calls)
        return self._settle(actor)

    def go_on(self, actor: SteppedActor, calls: int) -> Any:
        actor.go_on(calls)
        return self._settle(actor)

    def finish(self) -> None:
        """Let all go on to their ends."""
        for actor in list(self.at_work):
            self.go_on(actor, TO_THE_END)

    def kill(self, store: StoreActor) -> None:
        """Kill a server wherever it is, and start it again."""
        store.files.is_dead = True
        if store.is_at_work:
            _, story = self.at_work[store]
            story.is_dead = True
            self.go_on(store, TO_THE_END)
        self.open_again(store)

    def open_again(self, store: StoreActor) -> None:
        self.intervene(store.open_again, Sweep())

    def intervene(self, action: Callable[[], object], request: PeerRequest) -> None:
        """Do something at once, as an actor that nobody waits for."""
        story = PlayedStory(self._look(), self.bodies)
        self.is_content = False
        action()
        self._note(request, story, is_first=True)
        self.is_content = True

    # What comes of it

    def _settle(self, actor: SteppedActor) -> Any:
        request, story = self.at_work[actor]
        self.steps += 1
        self.is_content = False
        self._note(request, story, is_first=len(story.worlds) == 1)
        if not actor.is_at_work:
            del self.at_work[actor]
            story.outcome = actor.outcome
            if not story.is_dead:
                request.judge(story)
        self.is_content = True
        return story.outcome

    def _note(self, request: PeerRequest, story: PlayedStory, *, is_first: bool) -> None:
        """Look what has changed, whether it may, and tell all whose requests are under way."""
        earlier, self.world = self.world, self._look()
        others = [each for _, each in self.at_work.values() if each is not story]
        changes = list(_changes(earlier, self.world))
        story.worlds.append(self.world)
        for change in changes:
            where = f"{request} of {change.message_id}: {change.before} -> {change.after}"
            assert request.may(change, story) or story.takes_back(change), where
            if is_first and request.takes_locks:
                assert change.message_id not in earlier.held, f"{where}, which was locked"
            story.note(change)
            for each in others:
                each.note_of_others(change)
        for each in others:
            each.worlds.append(self.world)
        for queue in earlier.settings.keys() - self.world.settings.keys():
            assert request.may_delete(queue), f"{request} of {queue}"
        assert not (self.root / "corrupt").exists()
        if earlier.settings != self.world.settings:
            # All know the settings within a second.
            self.clock.pass_seconds(1)


def _changes(earlier: World, later: World) -> Iterator[MessageChange]:
    """What differs but for the inode, which a sweep may replace, and where nothing has moved."""
    change = partial(MessageChange, earlier=earlier, later=later)
    for message_id in sorted(earlier.messages.keys() | later.messages.keys()):
        before, after = earlier.messages.get(message_id), later.messages.get(message_id)
        if before is None or after is None or before[:6] != after[:6]:
            yield change(message_id, before, after)
