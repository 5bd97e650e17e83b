"""What a history says against the promises, in the manner of Jepsen's checker of queues.

    lost         published or delivered, never removed nor perhaps removed, and not there at the end
    phantom      delivered, and no client ever asked to publish it; or from another queue
    torn         delivered with a body that is not whole, or with that of another message
    doubled      delivered while another receiver had a lease on it, or twice under one lease; there
                 twice at the end; or published once and there under two ids
    early        delivered before its delay was over
    reordered    delivered before one that was published before it, and was ready all the time
    resurrected  delivered after its removal was answered, or the purge of its queue
    stale lease  removed, moved, renewed or released under a lease that a later one had replaced
    defect       the server called its answer a defect of its own

Each verdict is certain: where the order of two requests cannot be told from their times, or a
request without an answer may explain what was seen, the benefit of the doubt is the server's.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from mq.names import DEAD_SUFFIX
from tests.soak.clock import Steps
from tests.soak.history import SECOND_NS, Event, Given
from tests.soak.order import order_violations
from tests.soak.story import Lease, Story

_REMOVALS = {"remove", "delete"}
_GUARDED = _REMOVALS | {"renew", "release", "move"}
_DEFECT = 500

_LATE_SECONDS = 60
"""For how long after its client has given up a purge may go on."""


class SoakViolation(NamedTuple):
    kind: str
    message_id: str
    why: str


def judge(
    history: Iterable[Event],
    left: Iterable[Given],
    ordered: Iterable[str] = ("",),
    keep_seconds: float = 60,
) -> list[SoakViolation]:
    """What `history` says against a root in which `left` was found at the end, each as often as it
    was there. The queues `ordered` had one server. An own id is known for `keep_seconds` after the
    message's removal."""
    judgement = _Judgement(history, keep_seconds)
    there = list(left)
    found = [*judgement.of_the_end(there), *judgement.of_stories(), *judgement.of_tokens(there)]
    late = order_violations(judgement.stories, judgement.receives, set(ordered), judgement.steps)
    return [*found, *(SoakViolation("reordered", each, why) for each, why in late)]


class _Judgement:
    def __init__(self, history: Iterable[Event], keep_seconds: float) -> None:
        self.stories: dict[str, Story] = {}
        self.receives: list[Event] = []
        self.steps = Steps()
        self._asked: dict[str, str] = {}  # The queue of each token.
        self._untold: Counter[str] = Counter()  # Ids of a token that no client may know.
        self._purges: dict[str, list[Event]] = defaultdict(list)
        self._defects: list[Event] = []
        self._keep_ns = int(keep_seconds * SECOND_NS)
        for event in sorted(history, key=lambda each: each.ended):
            self._take_in(event)

    def _story(self, message_id: str) -> Story:
        return self.stories.setdefault(message_id, Story())

    def _take_in(self, event: Event) -> None:
        if event.status == _DEFECT:
            self._defects.append(event)
        if event.kind == "clock":
            self.steps.add(event)
        elif event.kind == "publish":
            self._take_in_publish(event)
        elif event.kind == "purge":
            self._purges[event.queue].append(event)
        elif event.kind == "receive":
            self._take_in_receive(event)
        elif event.kind in _GUARDED:
            self._take_in_guarded(event)

    def _take_in_publish(self, event: Event) -> None:
        for given in event.given:
            self._asked[given.token or ""] = _family(event.queue)
            if not given.message_id and (event.is_uncertain or event.succeeded):
                self._untold[given.token or ""] += 1
            if given.message_id:
                self._story(given.message_id).publishes += ((event, given.token or ""),)

    def _take_in_receive(self, event: Event) -> None:
        self.receives.append(event)
        for given in event.given:
            story = self._story(given.message_id)
            story.given += ((event, given.token),)
            story.leases += (Lease(given.lease, event),)

    def _take_in_guarded(self, event: Event) -> None:
        for given in event.given:
            story = self._story(given.message_id)
            story.guarded += ((event, given.lease),)
            if event.kind in _REMOVALS:
                story.removals += ((event, given.lease),)
            elif event.kind in ("release", "move"):
                story.releases += (event,)
            elif event.succeeded:
                story.leases += (Lease(given.lease, event),)

    # The end

    def of_the_end(self, left: list[Given]) -> Iterator[SoakViolation]:
        for event in self._defects:
            about = event.given[0].message_id if event.given else event.queue
            yield SoakViolation("defect", about, f"{event.kind} at {event.ended}")
        there = Counter(given.message_id for given in left)
        for message_id, count in there.items():
            if count > 1:
                yield SoakViolation("doubled", message_id, f"there {count} times at the end")
        for given in left:
            story = self._story(given.message_id)
            kind = self._wrong_body(story, given.token)
            if kind:
                yield SoakViolation(kind, given.message_id, "at the end")
            if self._is_resurrected(story, None):
                yield SoakViolation("resurrected", given.message_id, "there at the end")
        for message_id, story in self.stories.items():
            if there[message_id] or not (story.published or story.given):
                continue
            if not self._may_be_removed(story) and not self._may_be_purged(story):
                yield SoakViolation("lost", message_id, "not there at the end")

    def _may_be_removed(self, story: Story) -> bool:
        return any(
            (event.succeeded or event.is_uncertain) and not _is_stale(story.leases, event, lease)
            for event, lease in story.removals
        )

    def _may_be_purged(self, story: Story) -> bool:
        """Whether a purge may have ended after it was there for the last time."""
        given = [event.asked for event, _ in story.given]
        there = max(given) if given else min(event.asked for event, _ in story.publishes)
        return any(
            purge.ended + (_LATE_SECONDS * SECOND_NS if purge.is_uncertain else 0) > there
            and (purge.succeeded or purge.is_uncertain)
            for queue in {event.queue for event, _ in (*story.publishes, *story.given)}
            for purge in self._purges.get(queue, ())
        )

    # Each message

    def of_stories(self) -> Iterator[SoakViolation]:
        for message_id, story in self.stories.items():
            for kind, why in self._of_story(story):
                yield SoakViolation(kind, message_id, why)

    def _of_story(self, story: Story) -> Iterator[tuple[str, str]]:
        publish = story.published
        for event, token in story.given:
            kind = self._wrong_body(story, token)
            if kind:
                yield kind, f"given out at {event.ended}"
            elif self._asked[token or ""] != _family(event.queue):
                yield "phantom", f"given out at {event.ended} from {event.queue}"
            if self._is_resurrected(story, event):
                yield "resurrected", f"given out at {event.ended}"
            if publish is not None and self._is_early(publish, event):
                yield "early", f"{publish.seconds} s after {publish.asked}, given at {event.ended}"
        given = Counter(each.lease for each in story.leases if each.event.kind == "receive")
        for lease, times in given.items():
            if times > 1:
                yield "doubled", f"given out {times} times under {lease}"
        if len(story.leases) > 1:
            yield from self._of_leases(story)

    def of_tokens(self, left: list[Given]) -> Iterator[SoakViolation]:
        """What was published once and is there under an id that nobody was told besides."""
        ids: dict[str, set[str]] = defaultdict(set)
        for given in left:
            ids[given.token or ""].add(given.message_id)
        for message_id, story in self.stories.items():
            for _, token in story.given if not story.publishes else ():
                ids[token or ""].add(message_id)
        for token, there in ids.items():
            untold = sorted(each for each in there if not self._story(each).publishes)
            if token in self._asked and len(untold) > self._untold[token]:
                yield SoakViolation("doubled", untold[-1], f"published as {token} and not told of")

    def _wrong_body(self, story: Story, token: str | None) -> str | None:
        if token is None:
            return "torn"
        if token not in self._asked:
            return "phantom"
        published = {each for _, each in story.publishes}
        return "torn" if published and token not in published else None

    def _is_resurrected(self, story: Story, event: Event | None) -> bool:
        """Whether it was gone before `event`; before the end without one."""
        at = None if event is None else event.asked
        return any(
            (at is None or ended < at) and not self._is_forgotten(story, asked, at)
            for asked, ended in self._ends_of(story)
        )

    def _ends_of(self, story: Story) -> Iterator[tuple[int, int]]:
        """The times of requests that have certainly removed it."""
        for event, lease in story.removals:
            if event.succeeded and (event.kind == "remove" or self._was_held(story, event, lease)):
                yield event.asked, event.ended
        publish = story.published
        if publish is not None:
            for purge in self._purges.get(publish.queue, ()):
                if purge.succeeded and purge.asked > publish.ended:
                    yield purge.asked, purge.ended

    def _was_held(self, story: Story, event: Event, lease: str) -> bool:
        return any(
            each.lease == lease and event.ended < each.ends
            and not self.steps.between(each.asked, event.ended)
            for each in story.leases
        )  # fmt: skip

    def _is_forgotten(self, story: Story, gone: int, at: int | None) -> bool:
        """An own id is known until the reaper comes, which a clock that is set ahead brings about:
        sent again after that it is a new message."""
        return len(story.publishes) > 1 and any(
            again.ended > gone
            and (again.ended - gone > self._keep_ns or self.steps.between(gone, again.ended))
            and (at is None or again.asked < at)
            for again, _ in story.publishes
        )

    def _is_early(self, publish: Event, event: Event) -> bool:
        due = publish.asked + int(publish.seconds * SECOND_NS)
        return event.ended < due and not self.steps.between(publish.asked, event.ended)

    def _of_leases(self, story: Story) -> Iterator[tuple[str, str]]:
        leases = sorted(set(story.leases), key=lambda each: each.asked)
        for one, other in combinations(leases, 2):
            if one.lease == other.lease:
                continue
            apart = max(other.ended - one.asked, one.ended - other.asked)
            least = min(one.seconds, other.seconds) * SECOND_NS
            is_later_free = one.ended < other.asked and other.ended < one.ends
            if not (apart < least or is_later_free):
                continue
            if not self._may_be_free(story, *_span(one, other)):
                yield "doubled", f"under {one.lease} from {one.ended}, {other.lease} {other.ended}"
        for event, lease in story.guarded:
            # Of a delete nobody is told that its lease was over.
            if event.succeeded and event.kind != "delete" and _is_stale(leases, event, lease):
                yield "stale lease", f"{event.kind} under {lease} at {event.ended}"

    def _may_be_free(self, story: Story, begin: int, end: int) -> bool:
        """Whether a release, or a step of the clock, may have ended the lease in between."""
        if self.steps.between(begin, end):
            return True
        return any(
            each.asked < end and (each.succeeded or each.is_uncertain) and each.ended > begin
            for each in story.releases
        )


def _family(queue: str) -> str:
    """A queue and its dead letters."""
    return sys.intern(queue.removesuffix(DEAD_SUFFIX))


def _is_stale(leases: Sequence[Lease], event: Event, lease: str) -> bool:
    own = [each for each in leases if each.lease == lease]
    given = min(own, key=lambda each: each.asked, default=None)
    return given is not None and any(
        each.lease != lease and given.ended < each.asked and each.ended < event.asked
        for each in leases
    )


def _span(one: Lease, other: Lease) -> tuple[int, int]:
    return min(one.asked, other.asked), max(one.ended, other.ended)
