"""What a history says against the promises, in the manner of Jepsen's checker of queues.

    lost         published or delivered, never removed nor perhaps removed, and not there at the end
    phantom      delivered, and no client ever asked to publish it
    astray       delivered from another queue than it was sent to, and nothing may have brought it
                 there: a dead letter that was neither received too often nor moved, for example
    torn         delivered with a body that is not whole, or with that of another message
    doubled      delivered while another receiver had a lease on it, or twice under one lease; there
                 twice at the end; or published once and there under two ids
    early        delivered before its delay was over
    too old      delivered though it was older than the ttl of its queue
    reordered    delivered before one that was published before it, and was ready all the time
    parted       in a batch that was not answered, and of which a part is there
    half         handed over, and either there after that or nothing published for it
    late         missing in an answer that it had to be in, long after its lease or delay was over
    resurrected  delivered, renewed, released or moved after its removal was answered, or the purge
                 of its queue
    stale lease  removed, moved, renewed or released under a lease that a later one had replaced
    defect       the server called its answer a defect of its own

Each verdict is certain: where the order of two requests cannot be told from their times, or a
request without an answer may explain what was seen, the benefit of the doubt is the server's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from operator import attrgetter
from typing import NamedTuple

from mq.spool.queue.queue_settings import DeadLetterRule
from tests.soak.evidence import Evidence
from tests.soak.halves import halves
from tests.soak.history import SECOND_NS, Event
from tests.soak.late import late_violations
from tests.soak.order import order_violations
from tests.soak.parted import parted
from tests.soak.story import Lease, Story
from tests.soak.whereabouts import astray

_LATE_SECONDS = 60
"""For how long after its client has given up a purge may go on."""

_TICK_NS = SECOND_NS // 10
"""The clock of files goes by ticks of milliseconds."""

_OF_THE_LIVING = {"renew", "release", "move"}
"""What nobody is told to have been done to a message that is gone."""

_ASKED = attrgetter("asked")


class SoakViolation(NamedTuple):
    kind: str
    message_id: str
    why: str


def judge(
    history: Iterable[Event],
    ordered: Iterable[str] = ("",),
    keep_seconds: float = 60,
    *,
    dead_letters: Mapping[str, DeadLetterRule] | None = None,
    prompt: Iterable[str] = (),
    copied: Iterable[str] = (),
    ttl: Mapping[str, float] | None = None,
) -> list[SoakViolation]:
    """What `history` says against a root. The queues `ordered` had one server. An own id is known
    for `keep_seconds` after the message's removal. `dead_letters` says when what is received from a
    queue becomes a dead letter, and where. The queues `prompt` have a mover of which all is known
    that goes wrong, and messages leave them only when they are removed. Those in `copied` get
    copies too, and are not purged. `ttl` is that of queues, in seconds."""
    evidence = Evidence(history)
    judgement = _Judgement(evidence, keep_seconds, ttl or {})
    one_server = set(ordered)
    by_queue = {
        "reordered": order_violations(evidence, one_server),
        "late": late_violations(evidence, one_server, set(prompt)),
        "astray": astray(evidence, dead_letters or {}),
        "half": halves(evidence),
        "parted": parted(evidence, one_server & {*prompt} | {*copied}),
    }
    return [
        *judgement.of_the_end(),
        *judgement.of_stories(),
        *judgement.of_tokens(),
        *(SoakViolation(kind, *found) for kind, some in by_queue.items() for found in some),
    ]


class _Judgement:
    def __init__(self, evidence: Evidence, keep_seconds: float, ttl: Mapping[str, float]) -> None:
        self._evidence = evidence
        self._stories = evidence.stories
        self._steps = evidence.steps
        self._there = [given for each in evidence.left for given in each.given]
        self._keep_ns = int(keep_seconds * SECOND_NS)
        self._ttl_ns = {queue: int(seconds * SECOND_NS) for queue, seconds in ttl.items()}

    # The end

    def of_the_end(self) -> Iterator[SoakViolation]:
        left = self._there
        for event in self._evidence.defects:
            about = event.given[0].message_id if event.given else event.queue
            yield SoakViolation("defect", about, f"{event.kind} at {event.ended}")
        for message_id, count in (there := Counter(each.message_id for each in left)).items():
            if count > 1:
                yield SoakViolation("doubled", message_id, f"there {count} times at the end")
        for given in left:
            story = self._evidence.story(given.message_id)
            kind = self._wrong_body(story, given.token)
            if kind:
                yield SoakViolation(kind, given.message_id, "at the end")
            if self._is_resurrected(story, None):
                yield SoakViolation("resurrected", given.message_id, "there at the end")
        for message_id, story in self._stories.items():
            if there[message_id] or not (story.published or story.given):
                continue
            if not self._may_be_gone(story):
                yield SoakViolation("lost", message_id, "not there at the end")

    def _may_be_gone(self, story: Story) -> bool:
        """Whether a client may have removed it, or its queue a ttl, which is over at the end."""
        queues = {event.queue for event, _ in (*story.publishes, *story.given)}
        is_too_old = not queues.isdisjoint(self._ttl_ns)
        return is_too_old or self._may_be_removed(story) or self._may_be_purged(story)

    def _may_be_removed(self, story: Story) -> bool:
        """Whether a removal may have been carried out under the last lease, and since it was stored
        for the last time. Under another one it was not: the message was there after that."""
        stored = max(story.stored(), default=0)
        return any(
            (event.succeeded or event.is_uncertain)
            and not _is_replaced(story.leases, lease, stored)
            for event, lease in story.removals
        )

    def _may_be_purged(self, story: Story) -> bool:
        """Whether a purge may have ended after it was there for the last time."""
        there = max(
            (*story.stored(), *(event.asked for event, _ in story.given)),
            default=min((event.asked for event, _ in story.publishes), default=0),
        )
        return any(
            purge.ended + (_LATE_SECONDS * SECOND_NS if purge.is_uncertain else 0) > there
            and (purge.succeeded or purge.is_uncertain)
            for queue in {event.queue for event, _ in (*story.publishes, *story.given)}
            for purge in self._evidence.purges.get(queue, ())
        )

    # Each message

    def of_stories(self) -> Iterator[SoakViolation]:
        for message_id, story in self._stories.items():
            for kind, why in self._of_story(story):
                yield SoakViolation(kind, message_id, why)

    def _of_story(self, story: Story) -> Iterator[tuple[str, str]]:
        publish = story.published
        for event, token in story.given:
            kind = self._wrong_body(story, token)
            if kind:
                yield kind, f"given out at {event.ended}"
            if self._is_resurrected(story, event):
                yield "resurrected", f"given out at {event.ended}"
            if publish is not None and self._is_early(first := story.publishes[0][0], event):
                yield "early", f"{first.seconds} s after {first.asked}, given at {event.ended}"
            if publish is not None and self._is_too_old(publish, event):
                yield "too old", f"published by {publish.ended}, given at {event.ended}"
        for event, _ in story.guarded:
            is_of_the_living = event.succeeded and event.kind in _OF_THE_LIVING
            if is_of_the_living and self._is_resurrected(story, event):
                yield "resurrected", f"{event.kind} at {event.ended}"
        given = Counter(each.lease for each in story.leases if each.event.kind == "receive")
        for lease, times in given.items():
            if times > 1:
                yield "doubled", f"given out {times} times under {lease}"
        if len(story.leases) > 1:
            yield from self._of_leases(story)

    def of_tokens(self) -> Iterator[SoakViolation]:
        """What was published once and is there under an id that nobody was told besides."""
        ids: dict[str, set[str]] = defaultdict(set)
        for given in self._there:
            ids[given.token or ""].add(given.message_id)
        for message_id, story in self._stories.items():
            for _, token in story.given if not story.publishes else ():
                ids[token or ""].add(message_id)
        for token, there in ids.items():
            untold = sorted(each for each in there if not self._evidence.story(each).publishes)
            if token in self._evidence.sent and len(untold) > self._evidence.untold[token]:
                yield SoakViolation("doubled", untold[-1], f"published as {token} and not told of")

    def _wrong_body(self, story: Story, token: str | None) -> str | None:
        if token is None:
            return "torn"
        if token not in self._evidence.sent:
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
            if event.succeeded and (event.kind != "delete" or self._was_held(story, event, lease)):
                yield event.asked, event.ended
        publish = story.published
        if publish is not None:
            for purge in self._evidence.purges.get(publish.queue, ()):
                if purge.succeeded and purge.asked > publish.ended:
                    yield purge.asked, purge.ended

    def _was_held(self, story: Story, event: Event, lease: str) -> bool:
        return any(
            each.lease == lease and event.ended < each.ends
            and not self._steps.between(each.asked, event.ended)
            for each in story.leases
        )  # fmt: skip

    def _is_forgotten(self, story: Story, gone: int, at: int | None) -> bool:
        """An own id is known until the reaper comes, which a clock that is set ahead brings about:
        sent again after that it is a new message."""
        return len(story.publishes) > 1 and any(
            again.ended > gone
            and (again.ended - gone > self._keep_ns or self._steps.between(gone, again.ended))
            and (at is None or again.asked < at)
            for again, _ in story.publishes
        )

    def _is_early(self, publish: Event, event: Event) -> bool:
        due = publish.asked + int(publish.seconds * SECOND_NS)
        return event.ended < due and not self._steps.between(publish.asked, event.ended)

    def _is_too_old(self, publish: Event, event: Event) -> bool:
        """While the clock is behind what it has shown once, messages have times ahead of it."""
        steps, ttl_ns = self._steps, self._ttl_ns.get(event.queue)
        if ttl_ns is None or steps.between(publish.asked, event.ended):
            return False
        published_ns = steps.shown_last(0, publish.ended)
        return steps.shown_last(event.asked, event.asked) > published_ns + ttl_ns + _TICK_NS

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
        if self._steps.between(begin, end):
            return True
        return any(
            each.asked < end and (each.succeeded or each.is_uncertain) and each.ended > begin
            for each in story.releases
        )


def _is_replaced(leases: Sequence[Lease], lease: str, stored: int) -> bool:
    """Whether a later lease was certainly given, or the message was stored again since."""
    given = min((each for each in leases if each.lease == lease), key=_ASKED, default=None)
    return given is not None and (
        given.ended < stored
        or any(each.lease != lease and given.ended < each.asked for each in leases)
    )


def _is_stale(leases: Sequence[Lease], event: Event, lease: str) -> bool:
    own = [each for each in leases if each.lease == lease]
    given = min(own, key=_ASKED, default=None)
    return given is not None and any(
        each.lease != lease and given.ended < each.asked and each.ended < event.asked
        for each in leases
    )


def _span(one: Lease, other: Lease) -> tuple[int, int]:
    return min(one.asked, other.asked), max(one.ended, other.ended)
