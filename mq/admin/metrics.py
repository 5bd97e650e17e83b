"""The metrics of a server. docs/operations.md says what each one means."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import NamedTuple

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from mq.config import MAX_METRIC_QUEUES, SECOND_NS
from mq.metrics.exposition import (
    Collect,
    counter,
    gauge,
    gauges,
    histograms,
    message_counters,
    moved,
    readable_accept,
    reaped,
    registry_of,
)
from mq.metrics.histogram import Histogram
from mq.metrics.tally import (
    OTHER_QUEUES,
    DoneInQueue,
    MoverCounts,
    ReaperCounts,
    ServerCounts,
    by_queue,
)
from mq.store.counts import OperationCounts
from mq.store.health import FreeSpace, StoreHealth
from mq.store.survey import QueueSurvey, Survey
from mq.web.durations import Durations


async def render(
    health: StoreHealth | None,
    durations: Durations,
    accept: str,
    children: ChildCounts | None,
) -> tuple[bytes, str]:
    """Return the text and its type. While the store is being opened, `health` is None and only the
    metrics of the process are returned. Raises OSError."""
    collectors: list[Collect] = [partial(_request_metrics, durations, children)]
    if health is not None:
        survey, space = await health.survey(), await health.free_space()
        collectors.append(_Store(health, survey, space, children).collect)
    if children is not None:
        collectors.append(partial(_children_metrics, children))
    encode, content_type = choose_encoder(readable_accept(accept))
    # With hundreds of queues this takes milliseconds, which requests need not wait for.
    return await asyncio.to_thread(encode, registry_of(*collectors)), content_type


class ChildCounts(NamedTuple):
    """What the children of `mq --standalone` count for it. A gateway that does not run counts
    nothing."""

    mover: MoverCounts
    reaper: ReaperCounts
    gateway: ServerCounts


def _request_metrics(durations: Durations, children: ChildCounts | None) -> Iterable[Metric]:
    found: dict[tuple[str, ...], Histogram] = {
        (route, method, str(status)): histogram
        for (route, method, status), histogram in durations.found.copy().items()
    }
    if children is not None:
        found |= children.gateway.requests()
    yield histograms(
        "mq_http_request_duration_seconds",
        "Seconds from a request's head until its answer is ready, or sent if it is long.",
        ["route", "method", "code"],
        found,
    )


def _children_metrics(children: ChildCounts) -> Iterable[Metric]:
    """Yield the metrics of the children that the server does not count itself."""
    yield moved(children.mover)
    yield from reaped(children.reaper)


class _Store:
    def __init__(
        self, health: StoreHealth, survey: Survey, space: FreeSpace, children: ChildCounts | None
    ) -> None:
        self._children = children
        self._health = health
        # Other threads may not look at those that wait.
        self._waiting = _waiting(health, children)
        self._waiting_requests = _waiting_requests(health, children)
        self._paused = Counter(health.paused_queues())
        self._survey = survey
        self._space = space

    def collect(self) -> Iterable[Metric]:
        yield from _message_counters(self._health.counts, self._children)
        yield from _queue_gauges(self._survey)
        yield from _waiting_gauges(self._survey.queues, self._waiting, self._waiting_requests)
        yield _by_label(
            "mq_queue_paused",
            "1 while the queue is paused, so that nobody receives its messages, else 0.",
            self._survey.queues,
            self._paused,
        )
        commits = self._health.commits
        yield histograms(
            "mq_commit_duration_seconds",
            "Seconds that a round of operations took, with its sync.",
            [],
            {(): commits.durations},
        )
        yield histograms(
            "mq_commit_round_requests", "Requests in a round.", [], {(): commits.requests}
        )
        yield gauge(
            "mq_storage_free_bytes", "Bytes free on the root's file system.", self._space.free_bytes
        )
        if self._space.free_inodes is not None:
            yield gauge(
                "mq_storage_free_inodes",
                "Inodes free on the root's file system.",
                self._space.free_inodes,
            )
        yield gauge(
            "mq_store_latched",
            "1 while everything is refused because a sync failed, else 0.",
            self._health.failure is not None,
        )


_ABOUT = {
    "published": "Messages published.",
    "received": "Times a message was received.",
    "redelivered": "Times a message was given back to its queue.",
    "removed": "Messages removed, except those of a deleted queue.",
    "dead_lettered": "Messages that became dead letters.",
    "expired": "Messages removed because they were older than the ttl of their queue.",
    "moved": "Messages that a client moved to another queue.",
}


def _message_counters(counts: OperationCounts, children: ChildCounts | None) -> Iterable[Metric]:
    yield from message_counters(_ABOUT, activity_by_queue(counts, children))
    corrupt, failed = counts.corrupt, counts.failed_sweeps
    if children is not None:
        corrupt += children.gateway.corrupt
        failed += children.gateway.failed_sweeps
    yield counter("mq_messages_corrupt", "Damaged files this server set aside.", corrupt)
    about_sweeps = "Sweeps that failed, or that an error of the disk hindered."
    yield counter("mq_sweeps_failed", about_sweeps, failed)


def activity_by_queue(
    counts: OperationCounts, children: ChildCounts | None
) -> dict[str, DoneInQueue]:
    """Return what the server and its children did, by queue."""
    others: list[tuple[str, DoneInQueue]] = []
    if children is not None:
        others += by_queue(children.mover).items()
        others += by_queue(children.gateway).items()
    labels = {queue: counts.label(queue) for queue, _ in others}
    own = counts.by_queue()  # Asked for once: meanwhile the committer goes on counting.
    found = {queue: DoneInQueue() for queue in own}
    for queue, each in chain(own.items(), others):
        into = found[labels.get(queue, queue)]
        for name in _ABOUT:
            setattr(into, name, getattr(into, name) + getattr(each, name))
    return found


def _queue_gauges(survey: Survey) -> Iterable[Metric]:
    queues = _with_few_names(survey.queues)
    yield gauges(
        "mq_queue_messages",
        "Messages of a queue by state.",
        ["queue", "state"],
        {
            (queue, state): getattr(found, state)
            for queue, found in queues.items()
            for state in ("ready", "leased", "delayed")
        },
    )
    yield gauges(
        "mq_queue_oldest_message_age_seconds",
        "Seconds since the oldest ready message was published; 0 if none is ready.",
        ["queue"],
        {(queue,): each.age_seconds(survey.time_ns) or 0.0 for queue, each in queues.items()},
    )
    yield gauges(
        "mq_folder_files",
        "Names in a folder of the root.",
        ["folder"],
        {(str(folder),): number for folder, number in survey.files.items()},
    )
    yield gauge(
        "mq_mover_lag_seconds",
        "Seconds since the message that is overdue the longest became due.",
        survey.mover_lag_ns / SECOND_NS,
    )


def _waiting(health: StoreHealth, children: ChildCounts | None) -> Counter[str]:
    """Return how many receives wait, by queue, at the server and at its gateway."""
    return Counter(health.waiting_receives()) + _waiting_at_gateway(children)


def _waiting_requests(health: StoreHealth, children: ChildCounts | None) -> int:
    """Return how many receives wait, those for several queues once."""
    return health.waiting_requests() + _waiting_at_gateway(children).total()


def _waiting_at_gateway(children: ChildCounts | None) -> Counter[str]:
    """Return how many receives wait at the gateway, by queue. There each is for one."""
    if children is None:
        return Counter()
    return Counter({queue: each.waiting for queue, each in by_queue(children.gateway).items()})


def _waiting_gauges(
    queues: Iterable[str], waiting: Mapping[str, int], requests: int
) -> Iterable[Metric]:
    """Yield how many receives wait: `requests` in all, and those for each of `queues`."""
    help = "Receives that wait for a message at this server."
    yield gauge("mq_waiting_receives", help, requests)
    yield _by_label("mq_queue_waiting_receives", f"{help} By queue.", queues, waiting)


def _by_label(name: str, help: str, queues: Iterable[str], numbers: Mapping[str, int]) -> Metric:
    """Return a gauge with a number for each of `queues`. Those without a label of their own are
    added up, and so is what is known of them together only."""
    found: Counter[str] = Counter()
    for queue, label in _labels(queues).items():
        found[label] += numbers.get(queue, 0)
    if OTHER_QUEUES in numbers:
        found[OTHER_QUEUES] += numbers[OTHER_QUEUES]
    return gauges(name, help, ["queue"], {(label,): each for label, each in found.items()})


def _with_few_names(found: Mapping[str, QueueSurvey]) -> dict[str, QueueSurvey]:
    few: dict[str, QueueSurvey] = {}
    for name, label in _labels(found).items():
        few[label] = few.get(label, QueueSurvey()).join(found[name])
    return few


def _labels(queues: Iterable[str]) -> dict[str, str]:
    """Return the label of each queue: the first ones by name have their own."""
    names = sorted(queues)
    return {
        name: name if number < MAX_METRIC_QUEUES else OTHER_QUEUES
        for number, name in enumerate(names)
    }
