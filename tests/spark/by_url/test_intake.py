"""The way in: every message is with the server, with another consumer, or in the staging; in one of
them, whatever happens between two steps."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mq.client import NoAnswer, QueueNotFound, Unavailable
from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.names import MessageId
from mq.spool.message.seal import TYPE_ATTRIBUTE
from mq.spool.spool import Spool
from pyspark_mq.by_url.intake import Intake
from pyspark_mq.options.options import STREAM_READ, parse_options
from pyspark_mq.reading.driver import Driver
from tests.support.faults import WatchedFiles
from tests.support.messages import read_seal
from tests.support.url_site import UrlSite

OpenIn = Callable[..., Spool]


StartIntake = Callable[..., Intake]


def taken(site: UrlSite) -> list[bytes]:
    folder = site.staging / "in/queues/orders"
    return sorted(path.read_bytes() for path in folder.iterdir())


def numbered(count: int) -> list[bytes]:
    return [b"%04d" % number for number in range(count)]


def test_what_is_fetched_is_in_the_staging_and_no_more_at_the_server(
    site: UrlSite, start_intake: StartIntake
) -> None:
    ids = site.publish(2500)

    assert start_intake().fetch(None, None) == 2500

    assert taken(site) == numbered(2500)
    assert site.staged("in", "queues") == sorted(f"orders/{each}" for each in ids)
    assert site.staged("in", "delay") == []
    assert site.orders.counts()[1:4] == (0, 0, 0)


def test_a_queue_with_more_than_a_fetch_brings_leaves_room_for_the_next_one(site: UrlSite) -> None:
    returns = site.mq.queue("returns")
    returns.create()
    returns.publish("one")
    site.publish(9)

    with closing(Intake(site.prepare("in"), site.addresses(), ["orders", "returns"])) as intake:
        assert [intake.fetch(3, None) for _ in range(2)] == [3, 3]

    assert returns.counts().ready == 0


def test_a_fetch_keeps_to_its_limits(site: UrlSite, start_intake: StartIntake) -> None:
    site.publish(10)
    intake = start_intake()

    assert intake.fetch(4, None) == 4
    assert site.orders.counts().ready == 6
    # About: a fetch that reaches the limit is the last one.
    assert intake.fetch(2, 1) == 2
    assert site.orders.counts().ready == 4


def test_a_producer_that_goes_on_does_not_keep_a_fetch_from_ending(
    site: UrlSite, start_intake: StartIntake
) -> None:
    site.publish(3)
    files = WatchedFiles()
    files.before["sync_file_system"] = lambda *_: site.orders.publish("later")

    assert start_intake(files).fetch(50, None) == 4

    assert site.orders.counts().ready == 1


def test_after_a_freeze_nothing_later_is_fetched(site: UrlSite, start_intake: StartIntake) -> None:
    site.publish(3)
    intake = start_intake()

    intake.freeze()
    site.orders.publish("later")

    assert intake.fetch(None, None) == 3
    assert intake.fetch(None, None) == 0
    assert site.bodies() == [b"later"]


def test_what_an_intake_left_staged_and_not_removed_is_taken_by_the_next(
    site: UrlSite, start_intake: StartIntake
) -> None:
    site.publish(3)
    died = start_intake()
    messages = site.orders.receive_many(10, visibility=60)
    died.stage(site.orders.name, messages)
    assert len(site.staged("in", "delay")) == 3

    assert start_intake().settle() == 3

    assert taken(site) == numbered(3)
    assert site.orders.counts()[1:4] == (0, 0, 0)


def test_what_an_intake_left_removed_and_not_taken_is_taken_by_the_next(
    site: UrlSite, start_intake: StartIntake
) -> None:
    site.publish(3)
    died = start_intake()
    messages = site.orders.receive_many(10, visibility=60)
    leases = died.stage(site.orders.name, messages)
    assert site.orders.ack_many(leases) == {}
    # And reaped: the server knows nothing of it any more.
    (site.server.root / f"remove/orders:{messages[0].id}").unlink()

    assert start_intake().settle() == 3

    assert taken(site) == numbered(3)


def test_a_message_that_the_server_cannot_remove_is_not_taken(
    site: UrlSite, start_intake: StartIntake
) -> None:
    site.publish(3)
    died, next_one = start_intake(), start_intake()
    messages = site.orders.receive_many(10, visibility=60)
    died.stage(site.orders.name, messages)

    with open(site.server.root / f"delay/orders:{messages[1].id}", "rb") as file:
        # Another process is at it.
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="option retrySeconds"):
            next_one.settle()

    assert taken(site) == []
    assert next_one.settle() == 3
    assert taken(site) == numbered(3)
    assert site.orders.counts()[1:4] == (0, 0, 0)


def test_a_message_that_somebody_else_has_meanwhile_leaves_the_staging(
    site: UrlSite, start_intake: StartIntake
) -> None:
    site.publish(2)
    died = start_intake()
    first, second = site.orders.receive_many(10, visibility=60)
    died.stage(site.orders.name, [first, second])
    first.release()
    other = site.orders.receive()
    assert other is not None

    assert start_intake().settle() == 1

    assert taken(site) == [second.body]
    assert site.staged("in", "delay") == site.staged("in", "remove") == []
    other.ack()


def test_a_driver_that_slept_does_not_touch_what_a_newer_one_has_fetched_anew(
    site: UrlSite, start_intake: StartIntake
) -> None:
    [message_id] = map(MessageId, site.publish(1))
    sleeper = start_intake()
    old = site.orders.receive(visibility=60)
    assert old is not None
    old.release()
    new = site.orders.receive(visibility=60)
    assert new is not None
    start_intake().stage(site.orders.name, [new])

    # It had asked under its old lease before it slept, and was refused.
    assert sleeper.decide(site.orders.name, {message_id: old.lease}, {message_id}) == 0

    assert site.staged("in", "delay") == [f"orders:{message_id}"]


def test_an_id_that_is_used_again_waits_until_its_place_is_free(
    site: UrlSite, start_intake: StartIntake
) -> None:
    site.orders.publish("one", message_id="order-1")
    intake = start_intake()
    assert intake.fetch(None, None) == 1
    (site.server.root / "remove/orders:order-1").unlink()
    site.orders.publish("two", message_id="order-1")
    assert intake.fetch(None, None) == 0
    assert taken(site) == [b"one"]

    (site.staging / "in/queues/orders/order-1").unlink()

    assert intake.settle() == 1
    assert taken(site) == [b"two"]


class SyncsSeen(Files):
    """Notes what is at the server when the staging is synced."""

    def __init__(self, site: UrlSite) -> None:
        super().__init__()
        self._site = site
        self.leased: list[int] = []

    def sync_file_system(self, fd: int) -> None:
        self.leased.append(self._site.orders.counts().leased)
        super().sync_file_system(fd)


def test_nothing_is_removed_at_the_server_before_it_is_durable_here(
    site: UrlSite, start_intake: StartIntake
) -> None:
    site.publish(5)
    files = SyncsSeen(site)
    intake = start_intake(files)

    intake.fetch(None, None)

    assert files.leased[0] == 5


def test_type_time_and_count_are_those_of_the_server(
    site: UrlSite, open_in: OpenIn, start_intake: StartIntake
) -> None:
    site.orders.publish("{}", content_type="application/json")
    [seen] = site.orders.peek()
    spool = open_in("in")
    start_intake().fetch(None, None)

    name = f"orders/{seen.id}"
    assert os.getxattr(spool.path(Folder.QUEUES, name), TYPE_ATTRIBUTE) == b"application/json"
    seal = read_seal(Path(spool.path(Folder.QUEUES, name)))
    assert seal.receive_count == 1
    assert seal.published_ns == int(seen.published_at.timestamp() * 1e6) * 1000


def test_a_queue_that_is_not_there_is_named(site: UrlSite) -> None:
    with (
        closing(Intake(site.prepare("in"), site.addresses(), ["refunds"])) as intake,
        pytest.raises(QueueNotFound, match="there is no queue refunds"),
    ):
        intake.require_queues()


def test_servers_that_do_not_answer_raise_after_the_time_for_retries(
    site: UrlSite, start_intake: StartIntake
) -> None:
    intake = start_intake()
    site.server.stop()

    with pytest.raises(NoAnswer, match="does not answer"):
        intake.fetch(None, None)


@pytest.fixture
def driver(site: UrlSite) -> Iterator[Driver]:
    """It works with an intake of its own."""
    started = Driver(parse_options(site.options | {"group": "lake"}, STREAM_READ))
    started.begin()
    started.fence()
    yield started
    started.close()


def test_what_spark_is_done_with_leaves_the_staging(site: UrlSite, driver: Driver) -> None:
    """No reaper works there."""
    [message_id] = site.publish(1)
    assert driver.next_batch(0, None, None) == 1
    assert len(list(site.staging.rglob(f"*{message_id}"))) == 1

    driver.finish(1)

    assert list(site.staging.rglob(f"*{message_id}")) == []


def test_available_now_reads_what_was_there_at_its_start(site: UrlSite, driver: Driver) -> None:
    site.publish(2)
    driver.freeze()
    site.orders.publish("later")

    assert [driver.next_batch(batch, 1, None) for batch in range(3)] == [1, 2, 2]

    assert site.bodies() == [b"later"]


def test_an_intake_whose_queue_is_deleted_says_so(site: UrlSite, start_intake: StartIntake) -> None:
    intake = start_intake()
    site.orders.delete()
    with pytest.raises(QueueNotFound, match="there is no queue orders; make it with PUT /orders"):
        intake.fetch(None, None)
