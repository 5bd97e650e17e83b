"""What servers, mover, reaper and people do beside clients, and what must hold at the end."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from mq.disk.files import Files
from mq.fsck.check import Check, report
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from tests.crash.enumeration.clock import DAY_SECONDS
from tests.crash.peers.chores import (
    Expire,
    Reap,
    Redeliver,
    Relist,
    Sweep,
    move_once,
    reap_once,
)
from tests.crash.peers.clients import CALLS, INDEX, QUEUES, STORE, PeerClients
from tests.crash.peers.receiving import Receive
from tests.crash.peers.stepping import TO_THE_END
from tests.crash.peers.story import MessageChange, PeerRequest, PlayedStory


class Rename(PeerRequest):
    """A person's `mv`, which takes no lock."""

    takes_locks = False

    def __init__(self, message_id: MessageId) -> None:
        super().__init__()
        self.message_id = message_id

    def may(self, change: MessageChange, story: PlayedStory) -> bool:
        return change.message_id == self.message_id


class PeersMachine(PeerClients):
    """Three stores, a mover, a reaper and a person on one root."""

    # Actors that stand still

    @precondition(lambda self: self.referee.at_work)
    @rule(index=INDEX, calls=CALLS)
    def go_on(self, index: int, calls: int) -> None:
        at_work = list(self.referee.at_work)
        self.note(self.referee.go_on(at_work[index % len(at_work)], calls))

    @rule(store=STORE)
    def kill(self, store: int) -> None:
        self.referee.kill(self.referee.stores[store])

    @precondition(PeerClients.is_free)
    @rule(store=STORE)
    def open_again(self, store: int) -> None:
        idle = self.referee.idle_stores()
        self.referee.open_again(idle[store % len(idle)])

    # Upkeep

    @precondition(PeerClients.is_free)
    @rule(store=STORE, what=st.sampled_from([Sweep, Expire, Relist]), calls=CALLS)
    def keep_up(self, store: int, what: type[PeerRequest], calls: int) -> None:
        self.ask(store, what(), calls)

    @precondition(lambda self: self.referee.idle_others())
    @rule(calls=CALLS)
    def redeliver(self, calls: int) -> None:
        actor = self.referee.idle_others()[0]
        self.referee.begin(actor, move_once(self.root, actor.files), Redeliver(), calls)

    @precondition(lambda self: self.referee.idle_others())
    @rule(calls=CALLS)
    def reap(self, calls: int) -> None:
        actor = self.referee.idle_others()[0]
        self.referee.begin(actor, reap_once(self.root, actor.files), Reap(), calls)

    @rule(seconds=st.sampled_from([1.0, 20.0, 150.0, 2000.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.referee.intervene(lambda: self.referee.clock.pass_seconds(seconds), PeerRequest())

    # A person

    @precondition(PeerClients.may_move)
    @rule(index=INDEX, to=QUEUES)
    def rename(self, index: int, to: QueueName) -> None:
        """Put a message into a queue, from wherever it is, as the README shows."""
        queue, message_id = self.pick(index)
        seen = self.referee.world.messages.get(message_id)
        if seen is None:
            source = self.root / "remove" / f"{queue}:{message_id}"
        elif seen.place is Folder.NEW:
            return
        else:
            source = seen.path
        if source.exists() and to in self.referee.world.settings:
            self.moved.add(message_id)
            path = self.root / "queues" / to / message_id
            self.referee.intervene(lambda: _move(source, path), Rename(message_id))

    # The end

    def teardown(self) -> None:
        try:
            if self.referee.is_content:
                self.referee.finish()
                self.end()
        finally:
            super().teardown()

    def end(self) -> None:
        """Everything that is left can be received, and nothing is wrong with the root."""
        referee = self.referee
        store, mover = referee.stores[0], referee.others[0]
        referee.begin(store, store.work_on(Sweep()), Sweep(), TO_THE_END)
        assert all(seen.place is not Folder.NEW for seen in referee.world.messages.values())
        for queue in referee.world.settings:
            settings = self.root / "queues" / queue / ".settings"
            referee.intervene(partial(settings.unlink, missing_ok=True), PeerRequest())
        referee.intervene(lambda: referee.clock.pass_seconds(DAY_SECONDS), PeerRequest())
        referee.begin(mover, move_once(self.root, mover.files), Redeliver(), TO_THE_END)
        assert self._findings() == []
        for number, queue in enumerate(referee.world.settings):
            self.ask(number, Receive(queue, 1000, 1000.0), TO_THE_END)
        assert {seen.place for seen in referee.world.messages.values()} <= {Folder.DELAY}

    def _findings(self) -> list[object]:
        check = Check(
            self.root, Files(), report, lambda *_: None, settle_seconds=0.0, sleep=lambda _: None
        )
        return list(check.run())


def _move(source: Path, target: Path) -> None:
    if not target.exists():
        os.rename(source, target)
