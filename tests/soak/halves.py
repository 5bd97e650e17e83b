"""Handovers of which one half was done: the message is gone and nothing was published for it, or
that was, and the message is there all the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.soak.evidence import Evidence


def halves(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield the ids of messages that were handed over by half, and why. A request without an answer
    may have been carried out: then what it published is seen, unless it was removed unseen, which
    nobody can do; and the message is not seen after that."""
    tokens: dict[int, list[str]] = defaultdict(list)
    for event in evidence.unanswered:
        tokens[event.asked] += [given.token or "" for given in event.given]
    wanted = {each for event in evidence.handovers for each in tokens[event.asked]}
    seen: dict[str, int] = {}
    for story in evidence.stories.values():
        for event, token in story.seen():
            if token in wanted:
                seen[token] = min(event.ended, seen.get(token, event.ended))
    for event in evidence.handovers:
        [given] = event.given
        story = evidence.stories[given.message_id]
        times = [seen[each] for each in tokens[event.asked] if each in seen]
        if times and (story.left or any(each.asked > min(times) for each, _ in story.given)):
            yield given.message_id, f"handed over at {event.asked}, and there after that"
    for message_id, story in evidence.stories.items():
        removals = [each for each, _ in story.removals if each.succeeded or each.is_uncertain]
        if removals and not story.left and all(
            each.kind == "handover" and each.is_uncertain
            and not any(token in seen for token in tokens[each.asked])
            for each in removals
        ):  # fmt: skip
            yield message_id, "gone, and not handed over"
