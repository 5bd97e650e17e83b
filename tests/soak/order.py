"""When each message was first delivered, compared with all that were published before it and were
there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from tests.soak.clock import Steps
from tests.soak.evidence import Evidence
from tests.soak.history import SECOND_NS, Event
from tests.soak.story import Story

_MOVER_NS = 10 * SECOND_NS
"""For how long the mover may not come to a message that is due: it is stopped now and then."""


FULL = "disk full"
"""The fault during which a message may stay on its way: a sweep delivers it afterwards."""


def order_violations(evidence: Evidence, ordered: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the ids of messages that came too soon, and why."""
    stories, steps = evidence.stories, evidence.steps
    full = (each for each in evidence.faults if each.queue == FULL)
    undelivered = [(each.asked, each.ended + _MOVER_NS) for each in full]
    for queue in sorted(ordered):
        own = {
            message_id: story
            for message_id, story in stories.items()
            if story.publishes and story.publishes[0][0].queue == queue
        }
        its = [each for each in evidence.receives if each.queue == queue]
        hidden_until = Reach([*_hidden_by(its, steps), *undelivered])
        yield from _passed_over(own, hidden_until, steps)
        yield from _within_answers(own, its, hidden_until)


def hidden_by(receives: Sequence[Event], steps: Steps) -> Reach:
    """Return until when messages may be hidden that these receives took and did not give out."""
    return Reach([*_hidden_by(receives, steps)])


def _hidden_by(receives: Sequence[Event], steps: Steps) -> Iterator[tuple[int, int]]:
    for each in receives:
        if each.is_uncertain:
            # All is back when the clock has reached the latest stamp, if only for a while, and the
            # mover has come.
            stamp = steps.shown_last(each.asked, each.ended) + int(each.seconds * SECOND_NS)
            yield each.asked, steps.reached(each.ended, stamp) + _MOVER_NS
        elif may_be_late(each, steps):
            yield each.asked, each.ended + _MOVER_NS


def may_be_late(receive: Event, steps: Steps) -> bool:
    """Whether the lease of what it took first may have ended before that was durable: then it gave
    that back."""
    took_ns = receive.ended - receive.asked
    return took_ns >= receive.seconds * SECOND_NS or steps.between(receive.asked, receive.ended)


def _passed_over(
    stories: dict[str, Story], hidden_until: Reach, steps: Steps
) -> Iterator[tuple[str, str]]:
    ready = sorted(
        (story.published.ended, story.first_taken(), message_id)
        for message_id, story in stories.items()
        if story.published is not None and not story.published.seconds
        and all(each.succeeded for each, _ in story.publishes)
    )  # fmt: skip
    published = [ended for ended, _, _ in ready]
    longest = list(accumulate(((taken, older) for _, taken, older in ready), max))
    for message_id, story in stories.items():
        publish, event = story.published, story.first_given()
        if publish is None or publish.seconds or len(story.publishes) > 1 or event is None:
            continue
        before = bisect_left(published, publish.asked)
        taken, older = longest[before - 1] if before else (0, "")
        if taken <= event.ended:
            continue
        is_hidden = hidden_until(event.ended) >= event.asked
        if not is_hidden and not steps.between(publish.asked, event.ended):
            yield message_id, f"given out at {event.ended}, before {older}"


def _within_answers(
    stories: dict[str, Story], receives: Sequence[Event], hidden_until: Reach
) -> Iterator[tuple[str, str]]:
    """Several in one answer, all of them for the first time, are in the order of publication."""
    places: dict[str, int] = {}
    for each in stories.values():
        batch = each.publishes[0][0]
        if len(batch.given) > 1 and batch.given[0].message_id not in places:
            places |= {given.message_id: place for place, given in enumerate(batch.given)}
    for event in receives:
        if len(event.given) < 2 or hidden_until(event.ended) >= event.asked:
            continue
        fresh = [
            (given.message_id, story.publishes[0][0])
            for given in event.given
            if (story := stories.get(given.message_id)) is not None
            and len(story.publishes) == 1 and not story.publishes[0][0].seconds
            and story.first_taken() == event.asked
        ]  # fmt: skip
        for (one, first), (other, second) in pairwise(fresh):
            is_swapped = first is second and one != other and places[one] > places[other]
            if second.ended < first.asked or is_swapped:
                yield other, f"behind {one} in one answer, at {event.ended}"


class Reach:
    """How far the intervals reach that began before a time."""

    def __init__(self, intervals: list[tuple[int, int]]) -> None:
        ordered = sorted(intervals)
        self._begins = [begin for begin, _ in ordered]
        self._ends = list(accumulate((end for _, end in ordered), max))

    def __call__(self, at: int) -> int:
        before = bisect_right(self._begins, at)
        return self._ends[before - 1] if before else -1
