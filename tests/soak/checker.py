"""What a history says against the promises, in the manner of Jepsen's checker of queues.

    lost         published, never asked to be removed, and not there at the end
    phantom      delivered, and no client ever asked to publish it
    torn         delivered with a body that is not whole, or with that of another message
    doubled      delivered while another receiver had a lease on it; or there twice at the end
    early        delivered before its delay was over
    reordered    delivered before one that was published before it, and was ready all the time
    resurrected  delivered after its removal was answered
    stale lease  removed, renewed or released under a lease that a later one had replaced

Each verdict is certain: where the order of two requests cannot be told from their times, or a
request without an answer may explain what was seen, the benefit of the doubt is the server's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate, combinations
from typing import NamedTuple

from tests.soak.history import SECOND_NS, Event, Given

_GUARDED = {"remove", "renew", "release"}
_NEVER = 1 << 63


class SoakViolation(NamedTuple):
    kind: str
    message_id: str
    why: str


class _Lease(NamedTuple):
    """A lease that an answer told of: given at some time between `asked` and `ended`, and at the
    least until `asked` and its visibility after that."""

    lease: str
    asked: int
    ended: int
    seconds: float

    @property
    def ends(self) -> int:
        return self.asked + int(self.seconds * SECOND_NS)


class _Story:
    """All that happened to one message."""

    def __init__(self) -> None:
        self.publishes: list[Event] = []
        self.removals: list[Event] = []
        self.guarded: list[Event] = []
        self.leases: list[_Lease] = []
        self.releases: list[Event] = []
        self.tokens: list[tuple[str | None, Event]] = []

    @property
    def published(self) -> Event | None:
        """The first publish that was answered."""
        return min(
            (each for each in self.publishes if each.succeeded),
            key=lambda each: each.ended,
            default=None,
        )

    def first_taken(self) -> int:
        """The time before which no receiver can have taken it from its queue."""
        takers = [event.asked for _, event in self.tokens]
        takers += [event.asked for event in self.removals]
        takers += [event.asked for event in self.guarded]
        return min(takers, default=_NEVER)


def judge(history: Iterable[Event], left: Iterable[Given]) -> list[SoakViolation]:
    """What `history` says against a root in which `left` was found at the end, each as often as it
    was there."""
    return list(_Judge(history, left).violations())


class _Judge:
    def __init__(self, history: Iterable[Event], left: Iterable[Given]) -> None:
        self._asked: set[str] = set()
        self._stories: dict[str, _Story] = {}
        self._steps: list[int] = []
        self._unsure: list[tuple[int, int]] = []
        self._left = list(left)
        for event in sorted(history, key=lambda each: each.ended):
            self._take_in(event)
        self._steps.sort()

    def _story(self, message_id: str) -> _Story:
        return self._stories.setdefault(message_id, _Story())

    def _take_in(self, event: Event) -> None:
        if event.kind == "clock":
            self._steps += [event.asked, event.ended]
        elif event.kind == "publish":
            self._asked.add(event.token)
            if event.message_id:
                self._story(event.message_id).publishes.append(event)
        elif event.kind == "receive":
            self._take_in_receive(event)
        elif event.kind in _GUARDED:
            self._take_in_guarded(event)

    def _take_in_receive(self, event: Event) -> None:
        if event.is_uncertain:
            # What it may have taken is hidden until its visibility is over.
            self._unsure.append((event.asked, event.ended + int(event.seconds * SECOND_NS)))
        for given in event.given:
            story = self._story(given.message_id)
            story.tokens.append((given.token, event))
            story.leases.append(_Lease(given.lease, event.asked, event.ended, event.seconds))

    def _take_in_guarded(self, event: Event) -> None:
        story = self._story(event.message_id)
        story.guarded.append(event)
        if event.kind == "remove":
            story.removals.append(event)
        elif event.kind == "release":
            story.releases.append(event)
        elif event.succeeded:
            story.leases.append(_Lease(event.lease, event.asked, event.ended, event.seconds))

    def violations(self) -> Iterator[SoakViolation]:
        yield from self._judge_the_end()
        for message_id, story in self._stories.items():
            for kind, why in self._judge_story(story):
                yield SoakViolation(kind, message_id, why)
        yield from self._judge_order()

    def _judge_the_end(self) -> Iterator[SoakViolation]:
        at_the_end = Event("receive", _NEVER, _NEVER)
        there = Counter(given.message_id for given in self._left)
        for message_id, count in there.items():
            if count > 1:
                yield SoakViolation("doubled", message_id, f"there {count} times at the end")
        for given in self._left:
            kind = self._wrong_body(given.message_id, given.token)
            if kind:
                yield SoakViolation(kind, given.message_id, "at the end")
            if self._is_resurrected(self._story(given.message_id), at_the_end):
                yield SoakViolation("resurrected", given.message_id, "there at the end")
        for message_id, story in self._stories.items():
            if story.published is not None and not story.removals and not there[message_id]:
                yield SoakViolation("lost", message_id, "not there at the end")

    def _judge_story(self, story: _Story) -> Iterator[tuple[str, str]]:
        publish = story.published
        for token, event in story.tokens:
            kind = self._wrong_body_of(story, token)
            if kind:
                yield kind, f"given out at {event.ended}"
            if self._is_resurrected(story, event):
                yield "resurrected", f"given out at {event.ended}"
            if publish is not None and self._is_early(publish, event):
                yield "early", f"{publish.seconds} s after {publish.asked}, given at {event.ended}"
        yield from self._judge_leases(story)

    def _wrong_body(self, message_id: str, token: str | None) -> str | None:
        return self._wrong_body_of(self._story(message_id), token)

    def _wrong_body_of(self, story: _Story, token: str | None) -> str | None:
        if token is None:
            return "torn"
        if token not in self._asked:
            return "phantom"
        published = {each.token for each in story.publishes if each.message_id}
        return "torn" if published and token not in published else None

    def _is_resurrected(self, story: _Story, event: Event) -> bool:
        """An id is known until the reaper comes, which a clock that is set ahead brings about: sent
        again after that it is a new message."""
        gone = [each for each in story.removals if each.succeeded and each.ended < event.asked]
        if len(story.publishes) > 1:
            gone = [each for each in gone if not self._stepped(each.asked, event.asked)]
        return bool(gone)

    def _is_early(self, publish: Event, event: Event) -> bool:
        due = publish.asked + int(publish.seconds * SECOND_NS)
        return event.ended < due and not self._stepped(publish.asked, event.ended)

    def _judge_leases(self, story: _Story) -> Iterator[tuple[str, str]]:
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
        for event in story.guarded:
            if event.succeeded and event.lease and self._is_stale(leases, event):
                yield "stale lease", f"{event.kind} under {event.lease} at {event.ended}"

    def _may_be_free(self, story: _Story, begin: int, end: int) -> bool:
        """Whether a release, or a step of the clock, may have ended the lease in between."""
        if self._stepped(begin, end):
            return True
        return any(
            each.asked < end and (each.succeeded or each.is_uncertain) and each.ended > begin
            for each in story.releases
        )

    @staticmethod
    def _is_stale(leases: list[_Lease], event: Event) -> bool:
        own = [each for each in leases if each.lease == event.lease]
        given = min(own, key=lambda each: each.asked, default=None)
        return given is not None and any(
            each.lease != event.lease and given.ended < each.asked and each.ended < event.asked
            for each in leases
        )

    def _judge_order(self) -> Iterator[SoakViolation]:
        """When each message was first delivered, compared with all that were published before it
        and were there."""
        ready = sorted(
            (story.published.ended, story.first_taken())
            for story in self._stories.values()
            if story.published is not None and not story.published.seconds
            and sum(1 for each in story.publishes if not each.succeeded) == 0
        )  # fmt: skip
        published = [ended for ended, _ in ready]
        longest = list(accumulate((taken for _, taken in ready), max))
        hidden_until = _Reach(self._unsure)
        for message_id, story in self._stories.items():
            publish = story.published
            if publish is None or publish.seconds or len(story.publishes) > 1 or not story.tokens:
                continue
            _, event = min(story.tokens, key=lambda each: each[1].asked)
            before = bisect_left(published, publish.asked)
            if not before or longest[before - 1] <= event.ended:
                continue
            is_hidden = hidden_until(event.ended) >= event.asked
            if not is_hidden and not self._stepped(publish.asked, event.ended):
                yield SoakViolation("reordered", message_id, f"given out at {event.ended}")

    def _stepped(self, begin: int, end: int) -> bool:
        """Whether the clock may have been set between those times."""
        return bisect_right(self._steps, end) > bisect_left(self._steps, begin) or (
            bisect_left(self._steps, begin) % 2 == 1
        )


def _span(one: _Lease, other: _Lease) -> tuple[int, int]:
    return min(one.asked, other.asked), max(one.ended, other.ended)


class _Reach:
    """How far the intervals reach that began before a time."""

    def __init__(self, intervals: list[tuple[int, int]]) -> None:
        ordered = sorted(intervals)
        self._begins = [begin for begin, _ in ordered]
        self._ends = list(accumulate((end for _, end in ordered), max))

    def __call__(self, at: int) -> int:
        before = bisect_right(self._begins, at)
        return self._ends[before - 1] if before else -1
