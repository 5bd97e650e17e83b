"""What was done to the messages of each queue, by whichever process did it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from structlog.testing import capture_logs

from mq.admin.metrics import _ABOUT, ChildCounts, _waiting_gauges, activity_by_queue
from mq.config import MAX_METRIC_QUEUES
from mq.metrics.tally import (
    MAX_QUEUE_NAME_BYTES,
    OTHER_QUEUES,
    DoneInQueue,
    MoverCounts,
    QueueTally,
    ReaperCounts,
    ServerCounts,
    Tally,
    by_queue,
)
from mq.names import QueueName
from mq.store.counts import OperationCounts
from mq.web.durations import Durations
from mq_mover.metrics import mover_metrics
from tests.support.processes import Server, wait_until
from tests.support.scraping import Scrape, scrape
from tests.support.wire import Wire, let_lease_end, request_bytes


def count_of(found: Scrape, name: str, queue: str) -> float:
    return found.value(f"mq_queue_messages_{name}_total", queue=queue)


def assert_totals(found: Scrape) -> None:
    """Those of all queues are those of the server."""
    for name in _ABOUT:
        by_queue = found.by(f"mq_queue_messages_{name}_total", "queue")
        assert sum(by_queue.values()) == found.value(f"mq_messages_{name}_total"), name


@pytest.fixture
def server(start_server: Callable[..., Server]) -> Server:
    return start_server("--standalone", "--admin=127.0.0.1:0", "--max-receives=2", "--keep=0")


def test_each_queue_has_its_own_figures_whoever_did_it(
    server: Server, connect: Callable[[Server], Wire]
) -> None:
    wire = connect(server)
    for queue in ("a", "b", "a.dead"):
        wire.request("PUT", f"/{queue}")

    # a: one dies by the mover, one is given back by the server, one removed. b: one dead at once.
    lines = b'{"body": "one"}\n{"body": "two"}'
    wire.request("POST", "/b/messages?batch", lines, content_type="application/x-ndjson")
    message_id = wire.publish("a")
    for _ in range(2):
        let_lease_end(wire, "a", message_id)
    wait_until(lambda: wire.count("a.dead") == (1, 0), 100)
    message_id = wire.publish("a")
    wire.receive("a")
    wire.request("GET", f"/a/messages?id={message_id}&visibility=0")
    wire.remove("a", message_id)
    wire.request("POST", "/a.dead/messages?from=b&max=1&reason=x")
    wire.request("PUT", "/b?ttl=0.000001")
    assert wire.receive("b").status == 204

    expected = {
        "a": {"published": 2, "received": 3, "redelivered": 2, "removed": 1, "dead_lettered": 1},
        "b": {"published": 2, "moved": 1, "dead_lettered": 1},
    }
    wait_until(lambda: count_of(scrape(server.admin_port), "expired", "b") == 1, 100)
    found = scrape(server.admin_port)
    for queue, figures in expected.items():
        for name, figure in figures.items():
            assert count_of(found, name, queue) == figure, (queue, name)
    assert_totals(found)


def test_a_mover_by_itself_tells_them_too() -> None:
    counts = MoverCounts()
    QueueTally(counts).of("a").redelivered += 3
    QueueTally(counts).of("b").dead_lettered += 1

    found = {
        (sample.name, sample.labels["queue"]): sample.value
        for family in mover_metrics(counts)
        for sample in family.samples
        if "queue" in sample.labels
    }

    assert found["mq_queue_messages_redelivered_total", "a"] == 3
    assert found["mq_queue_messages_dead_lettered_total", "b"] == 1


# Receives that wait


def test_receives_that_wait_are_counted_by_queue(
    server: Server, connect: Callable[[Server], Wire]
) -> None:
    wire, waiting = connect(server), [connect(server) for _ in range(3)]
    for queue in ("a", "b", "idle"):
        wire.request("PUT", f"/{queue}")

    def counted() -> tuple[float, dict[str, float]]:
        found = scrape(server.admin_port)
        return found.value("mq_waiting_receives"), found.by("mq_queue_waiting_receives", "queue")

    assert counted() == (0, {"a": 0, "b": 0, "idle": 0})
    for each in waiting[:2]:
        each.send(request_bytes("GET", "/a/messages?wait=60"))
    wait_until(lambda: counted() == (2, {"a": 2, "b": 0, "idle": 0}))
    waiting[2].send(request_bytes("GET", "/b/messages?then=a&wait=60"))

    wait_until(lambda: counted() == (3, {"a": 3, "b": 1, "idle": 0}))
    wire.publish("a")
    waiting[2].close()
    wait_until(lambda: counted() == (1, {"a": 1, "b": 0, "idle": 0}))


def test_receives_that_wait_for_queues_without_own_figures_are_counted_together() -> None:
    queues = [f"q{number:03}" for number in range(MAX_METRIC_QUEUES + 3)]
    waiting = dict.fromkeys(queues, 2) | {"deleted": 5}

    _, of_queues = _waiting_gauges(queues, waiting, 1)

    found = {sample.labels["queue"]: sample.value for sample in of_queues.samples}
    assert found == dict.fromkeys(queues[:MAX_METRIC_QUEUES], 2) | {OTHER_QUEUES: 6}


# More queues than have figures of their own


def test_the_first_queues_have_their_own_figures_and_the_others_one_together() -> None:
    counts = OperationCounts()
    with capture_logs() as logs:
        for number in range(MAX_METRIC_QUEUES + 3):
            counts.of(f"q{number}").published += 1

    found = counts.by_queue()
    assert found.pop(OTHER_QUEUES).published == 3
    assert [each.published for each in found.values()] == [1] * MAX_METRIC_QUEUES
    assert [entry["log_level"] for entry in logs] == ["warning"]


def test_a_mover_counts_as_many_and_the_others_together() -> None:
    counts = MoverCounts()
    tally = QueueTally(counts)
    for number in range(MAX_METRIC_QUEUES + 3):
        tally.of(f"q{number}").redelivered += 1

    found = {queue: each.redelivered for queue, each in by_queue(counts).items()}
    assert found.pop(OTHER_QUEUES) == 3
    assert list(found.values()) == [1] * MAX_METRIC_QUEUES


def test_what_the_mover_counts_of_a_queue_without_own_figures_is_counted_with_the_others() -> None:
    """A series never changes its name: one that the mover alone knows gets its own while there is
    room, and keeps it."""
    counts, mover = OperationCounts(), MoverCounts()
    children = ChildCounts(mover, ReaperCounts(), ServerCounts())
    tally = QueueTally(mover)
    tally.of("early").redelivered += 1
    assert activity_by_queue(counts, children)["early"].redelivered == 1
    for number in range(MAX_METRIC_QUEUES):
        counts.of(f"q{number}").published += 1
    tally.of("late").dead_lettered += 1

    found = activity_by_queue(counts, children)

    assert found["early"].redelivered == 1
    assert found[OTHER_QUEUES].dead_lettered == 1
    assert "late" not in found
    assert len(found) == MAX_METRIC_QUEUES + 1


def test_a_queue_that_is_first_counted_meanwhile_harms_no_figures() -> None:
    """The committer counts on its own thread."""

    class Busy(OperationCounts):
        def by_queue(self) -> dict[str, DoneInQueue]:
            found = super().by_queue()
            self.of(f"q{len(found)}").published += 1
            return found

    counts = Busy()
    counts.of("first").published += 1

    found = activity_by_queue(counts, None)

    assert {queue: each.published for queue, each in found.items()} == {"first": 1}


def test_waiting_receives_may_be_shown_while_the_others_get_their_figures() -> None:
    class Showing(OperationCounts):
        def _begin(self, queue: str) -> DoneInQueue:
            self.show_waiting({QueueName("q0"): 1} if self._slots else {})
            return super()._begin(queue)

    counts = Showing(ServerCounts())
    for number in range(MAX_METRIC_QUEUES + 1):
        counts.of(f"q{number}").published += 1


# A mover that is started again


def test_a_mover_that_is_started_again_goes_on_with_the_figures_of_each_queue() -> None:
    longest = "n" * (MAX_QUEUE_NAME_BYTES - 5) + ".dead"
    with closing(Tally(MoverCounts)) as tally:
        first = QueueTally(tally.counts)
        first.of(longest).redelivered += 1
        first.of("b").dead_lettered += 1

        second = QueueTally(tally.counts)
        second.of(longest).redelivered += 1
        second.of("c").redelivered += 1

        found = by_queue(tally.counts)
        assert {queue: (each.redelivered, each.dead_lettered) for queue, each in found.items()} == {
            longest: (2, 0),
            "b": (0, 1),
            "c": (1, 0),
        }


def test_one_that_died_while_it_began_a_queue_leaves_nothing() -> None:
    counts = MoverCounts()
    counts.slots[0].name = b"half"  # and the number of queues was not raised

    assert by_queue(counts) == {}
    QueueTally(counts).of("whole").redelivered += 1

    assert list(by_queue(counts)) == ["whole"]


# A gateway


def test_what_a_gateway_does_is_added_to_what_the_server_does() -> None:
    counts, shared = OperationCounts(), ServerCounts()
    children = ChildCounts(MoverCounts(), ReaperCounts(), shared)
    served = OperationCounts(shared)
    counts.of("both").published += 1
    served.of("both").published += 2
    served.of("new").dead_lettered += 1
    QueueTally(children.mover).of("new").dead_lettered += 1

    found = activity_by_queue(counts, children)

    assert {queue: (each.published, each.dead_lettered) for queue, each in found.items()} == {
        "both": (3, 0), "new": (0, 2),
    }  # fmt: skip


def test_a_gateway_that_is_started_again_goes_on_with_its_figures() -> None:
    with closing(Tally(ServerCounts)) as tally:
        for number in range(1, 4):
            counts, durations = OperationCounts(tally.counts), Durations(tally.counts)
            counts.of("a").received += 1
            counts.of(f"q{number}").removed += 1
            counts.add_corrupt(2)
            counts.add_failed_sweep()
            durations.add("SendMessage", "json", 200, 0.25)
            durations.add("other", "query", 400 + number, 0.5)

            removed = [each.removed for each in counts.by_queue().values()]
            assert counts.of("a").received == sum(removed) == number
            assert (tally.counts.corrupt, tally.counts.failed_sweeps) == (2 * number, number)
            assert (counts.corrupt, counts.failed_sweeps) == (2 * number, number)
            sent = tally.counts.requests()["SendMessage", "json", "200"]
            assert (sent.total, sent.buckets()[-1]) == (0.25 * number, ("+Inf", number))
            assert len(tally.counts.requests()) == number + 1


def test_a_gateway_with_more_queues_than_it_shows_counts_the_others_together() -> None:
    shared = ServerCounts()
    for _ in range(2):
        counts = OperationCounts(shared)
        for number in range(MAX_METRIC_QUEUES + 3):
            counts.of(f"q{number}").published += 1

    by_queue = counts.by_queue()
    assert by_queue.pop(OTHER_QUEUES).published == 6
    assert [each.published for each in by_queue.values()] == [2] * MAX_METRIC_QUEUES
    assert counts.label("one more") == OTHER_QUEUES


def test_kinds_of_requests_that_no_room_is_left_for_are_counted_and_not_shown() -> None:
    shared = ServerCounts()
    durations = Durations(shared)
    for status in range(1000):
        durations.add("SendMessage", "json", status, 1.0)

    assert len(durations.found) == 1000
    assert 500 < len(shared.requests()) < 1000
