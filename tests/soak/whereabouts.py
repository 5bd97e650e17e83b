"""Which queue each message came out of, compared with where it was sent and what was done to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mq.spool.queue.queue_settings import NO_DEAD_LETTERS, DeadLetterRule
from tests.soak.evidence import Evidence
from tests.soak.history import Event
from tests.soak.order import may_be_late
from tests.soak.story import Story


def astray(
    evidence: Evidence, dead_letters: Mapping[str, DeadLetterRule]
) -> Iterator[tuple[str, str]]:
    """Yield the ids of messages that came out of a queue in which they cannot have been, and why.
    `dead_letters` says when what is received from a queue becomes a dead letter, and where."""
    unsure = {
        queue: [
            each
            for each in evidence.receives
            if each.queue == queue and (each.is_uncertain or may_be_late(each, evidence.steps))
        ]
        for queue in dead_letters
    }
    for message_id, story in evidence.stories.items():
        before: list[Event] = []
        for event, token in story.seen():
            home = evidence.sent.get(token or "")
            if home is None:
                continue  # It is a phantom, or torn.
            where = f"given out at {event.ended} from {event.queue}"
            rule = dead_letters.get(home, NO_DEAD_LETTERS)
            if event.queue == home:
                most = rule.max_receives or len(before) + 1
                is_lost = bool(before) and not (
                    _may_be_back(event, before[-1], evidence.redrives)
                    and _may_be_alive(story, event, before[-most:], evidence.redrives, most)
                )
            elif event.queue in rule.queues:
                least = rule.max_receives
                is_lost = not _may_have_died(story, event, before, unsure[home], least)
            else:
                is_lost = True
            if is_lost:
                yield message_id, f"sent to {home}, {where}"
            before.append(event)


def _may_be_back(event: Event, last: Event, redrives: Sequence[Event]) -> bool:
    """Whether it did not leave its queue, or may have been brought back there."""
    return (
        event.queue == last.queue
        or event.asked <= last.ended
        or _may_be_between(redrives, last, event)
    )


def _may_be_alive(
    story: Story, event: Event, last: Sequence[Event], redrives: Sequence[Event], most: int
) -> bool:
    """Whether it was not received `most` times before from its queue, or a move may have let it
    count as not received. One that was cut off may have done only that."""
    is_rare = len(last) < most or any(each.queue != event.queue for each in last)
    moves = [each for each, _ in story.guarded if each.kind == "move"]
    return is_rare or _may_be_between([*redrives, *moves], last[0], event)


def _may_be_between(moves: Sequence[Event], last: Event, event: Event) -> bool:
    return any(
        (each.succeeded or each.is_uncertain)
        and each.asked < event.ended and each.ended > last.asked
        for each in moves
    )  # fmt: skip


def _may_have_died(
    story: Story, event: Event, before: Sequence[Event], unsure: Sequence[Event], least: int
) -> bool:
    """Whether it was there before, and has not been seen in its queue since; or was moved; or may
    have been received often enough since then."""
    since, alive = min((each.asked for each, _ in story.publishes), default=0), list(before)
    while alive and alive[-1].queue != event.queue:
        alive.pop()
    if alive:
        since = alive[-1].asked
        if all(each.asked <= alive[-1].ended for each in before):
            return True  # Receives of the same time may have come first.
    if any(
        each.kind == "move" and (each.succeeded or each.is_uncertain)
        and since < each.ended and each.asked < event.ended
        for each, _ in story.guarded
    ):  # fmt: skip
        return True
    given = (each for each, _ in story.given if each.queue != event.queue)
    perhaps = sum(since < each.ended and each.asked < event.ended for each in (*given, *unsure))
    return perhaps >= least
