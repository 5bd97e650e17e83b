"""What a history says, by message and by kind: what all verdicts look at."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from tests.soak.clock import Steps
from tests.soak.history import UNCLEAR, Event
from tests.soak.story import Lease, Story

_REMOVALS = {"remove", "delete", "handover"}
_GUARDED = _REMOVALS | {"renew", "release", "move"}
_DEFECT = 500


class Evidence:
    """`sent` is the queue that each token was sent to, `untold` how many ids of a token no client
    may know."""

    def __init__(self, history: Iterable[Event]) -> None:
        self.stories: dict[str, Story] = {}
        self.receives: list[Event] = []
        self.left: list[Event] = []
        self.purges: dict[str, list[Event]] = defaultdict(list)
        self.redrives: list[Event] = []
        self.faults: list[Event] = []
        self.defects: list[Event] = []
        self.unanswered: list[Event] = []
        self.handovers: list[Event] = []
        self.sent: dict[str, str] = {}
        self.untold: Counter[str] = Counter()
        self.steps = Steps()
        for event in sorted(history, key=lambda each: each.ended):
            self._take_in(event)
        self._leave_out_unclear()

    def story(self, message_id: str) -> Story:
        return self.stories.setdefault(message_id, Story())

    def _take_in(self, event: Event) -> None:
        if event.status == _DEFECT:
            self.defects.append(event)
        if event.kind == "clock":
            self.steps.add(event)
        elif event.kind == "fault":
            self.faults.append(event)
        elif event.kind == "publish":
            self._take_in_publish(event)
        elif event.kind == "purge":
            self.purges[event.queue].append(event)
        elif event.kind == "redrive":
            self.redrives.append(event)
        elif event.kind == "left":
            self._take_in_left(event)
        elif event.kind == "receive":
            self._take_in_receive(event)
        elif event.kind in _GUARDED:
            self._take_in_guarded(event)

    def _leave_out_unclear(self) -> None:
        """Forget all copies of a message of which one may be any of them."""
        unclear = {each.partition("/")[2] for each in self.stories if each.startswith(UNCLEAR)}
        for each in [each for each in self.stories if each.partition("/")[2] in unclear - {""}]:
            del self.stories[each]
        for event in (*self.receives, *self.left, *self.unanswered) if unclear else ():
            event.given = [
                each
                for each in event.given
                if not each.message_id or each.message_id in self.stories
            ]

    def _take_in_publish(self, event: Event) -> None:
        if event.is_uncertain:
            self.unanswered.append(event)
        for given in event.given:
            self.sent[given.token or ""] = event.queue
            if not given.message_id and (event.is_uncertain or event.succeeded):
                self.untold[given.token or ""] += 1
            if given.message_id:
                self.story(given.message_id).publishes += ((event, given.token or ""),)

    def _take_in_left(self, event: Event) -> None:
        self.left.append(event)
        for given in event.given:
            self.story(given.message_id).left += ((event, given.token),)

    def _take_in_receive(self, event: Event) -> None:
        self.receives.append(event)
        for given in event.given:
            story = self.story(given.message_id)
            story.given += ((event, given.token),)
            story.leases += (Lease(given.lease, event),)

    def _take_in_guarded(self, event: Event) -> None:
        if event.kind == "handover":
            self.handovers.append(event)
        for given in event.given:
            story = self.story(given.message_id)
            story.guarded += ((event, given.lease),)
            if event.kind in _REMOVALS:
                story.removals += ((event, given.lease),)
            elif event.kind in ("release", "move"):
                story.releases += (event,)
            elif event.succeeded:
                story.leases += (Lease(given.lease, event),)
