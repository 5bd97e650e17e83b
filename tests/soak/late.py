"""Messages that were due, and the answers that lacked them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.soak.evidence import Evidence
from tests.soak.history import SECOND_NS, Event
from tests.soak.order import FULL, Reach, hidden_by
from tests.soak.story import Story

LATE_SECONDS = 15
"""For so long nothing must hold up the mover before a message is late whose lease or delay is over.
It takes milliseconds (docs/protocol.md); under a load of 10, faults included, up to 6 seconds were
seen."""

_LATE_NS = LATE_SECONDS * SECOND_NS


class _Queue(NamedTuple):
    """The answers of one queue, in the order in which they were asked for: the empty ones, or all
    if `is_ordered`, because the oldest message comes first then. And until when requests may have
    hidden messages that they did not give out."""

    answers: list[Event]
    hidden_until: Reach
    is_ordered: bool


def late_violations(
    evidence: Evidence, ordered: set[str], prompt: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield the ids of messages of the queues `prompt` that came too late, and why."""
    holding_up = (each for each in evidence.faults if each.queue.endswith((FULL, "mq-mover")))
    trouble = _Trouble([*holding_up])
    asked = sorted((*evidence.receives, *evidence.left), key=lambda each: each.asked)
    queues: dict[str, _Queue] = {}
    for queue in prompt:
        its = [each for each in asked if each.queue == queue]
        is_ordered = queue in ordered
        answers = [each for each in its if each.succeeded and (is_ordered or not each.given)]
        queues[queue] = _Queue(answers, hidden_by(its, evidence.steps), is_ordered)
    for message_id, story in evidence.stories.items():
        publish = story.published
        if publish is None or len(story.publishes) > 1 or publish.queue not in queues:
            continue
        times = [each for each, _ in story.seen()]
        if publish.seconds or not queues[publish.queue].is_ordered:  # Or see `order`.
            times.insert(0, publish)
        for begin, end in pairwise(times):
            if end.asked - begin.ended < _LATE_NS:
                continue
            due = _due(evidence, story, begin, end)
            if end.asked - due < _LATE_NS:
                continue
            lacking = _lacking(evidence, story, queues[publish.queue], due, end)
            for answer, since in lacking:
                if answer.asked - since - trouble.between(since, answer.asked) >= _LATE_NS:
                    yield message_id, f"due at {due}, not in the answer of {answer.ended}"
                    break


def _due(evidence: Evidence, story: Story, begin: Event, end: Event) -> int:
    """When the message that `begin` hid is due for certain, before `end` gives it out; never, if
    only a step of the clock makes it due: the mover may sleep through that, and looks at everything
    again after 200 times what a look takes."""
    renewals = [
        each
        for each, _ in story.guarded
        if each.kind == "renew" and begin.asked <= each.ended and each.asked <= end.ended
    ]
    hides, steps = [begin, *renewals], evidence.steps
    stamp = max(
        steps.shown_last(each.asked, each.ended) + int(each.seconds * SECOND_NS) for each in hides
    )
    due = steps.shown_since(max(each.ended for each in hides), end.asked, stamp)
    return end.asked if steps.is_one(due) else due


def _lacking(
    evidence: Evidence, story: Story, queue: _Queue, due: int, end: Event
) -> Iterator[tuple[Event, int]]:
    """Yield the answers between the two in which the message had to be, and since when it was
    ready: nobody without an answer has it."""
    first = bisect_left(queue.answers, due + _LATE_NS, key=lambda each: each.asked)
    for answer in queue.answers[first:]:
        if answer.asked >= end.asked:
            return
        if answer.ended <= end.asked and _has_another(evidence, story, answer, queue):
            yield answer, max(due, queue.hidden_until(answer.ended))


def _has_another(evidence: Evidence, story: Story, answer: Event, queue: _Queue) -> bool:
    """Whether the answer gives out nothing, or what was published after the message."""
    publish = story.published
    assert publish is not None
    others = [evidence.stories[each.message_id].publishes for each in answer.given]
    return not others or (
        queue.is_ordered
        and any(len(each) == 1 and each[0][0].asked > publish.ended for each in others)
    )


class _Trouble:
    """When something went wrong, or had just done so: `seconds` of a fault say for how long it is
    felt."""

    def __init__(self, faults: Sequence[Event]) -> None:
        self._spans = sorted(
            (each.asked, each.ended + int(each.seconds * SECOND_NS)) for each in faults
        )

    def between(self, begin: int, end: int) -> int:
        """Return for how much of that time."""
        total, reached = 0, begin
        for first, last in self._spans:
            if first >= end:
                break
            total += max(0, min(last, end) - max(first, reached))
            reached = max(reached, last)
        return total
