"""Batches without an answer of which a part is there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.soak.evidence import Evidence


def parted(evidence: Evidence, whole: set[str]) -> Iterator[tuple[str, str]]:
    """Yield a token that is missing of each such batch, and why it should be there. What the queues
    `whole` take is neither purged nor sent by a gateway, which publishes each message of a batch by
    itself. What goes to several queues in one request is an event for each of them."""
    batches: dict[int, list[str]] = defaultdict(list)
    for event in evidence.unanswered:
        if event.queue in whole:
            batches[event.asked] += [given.token or "" for given in event.given]
    wanted = {token for tokens in batches.values() for token in tokens}
    seen = {
        token
        for story in evidence.stories.values()
        for _, token in (*story.given, *story.left)
        if token in wanted
    }
    for asked, tokens in batches.items():
        missing = [each for each in tokens if each not in seen]
        if 0 < len(missing) < len(tokens):
            yield missing[0], f"{len(missing)} of a batch of {len(tokens)}, sent at {asked}"
