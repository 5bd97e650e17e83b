"""The driver's part of a streaming read, without Spark: claims, limits, fences."""

from __future__ import annotations

import fcntl
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from mq.config import MAX_SPARK_MESSAGE_BYTES
from mq.disk.files import Files
from mq.errors import ClaimError, QueueNotFound
from mq.spool.message.seal import SEAL_ATTRIBUTE
from pyspark_mq.options.options import STREAM_READ, parse_options
from pyspark_mq.reading.driver import SIDE_BY_SIDE_FROM, Driver
from tests.support.lone_root import Root
from tests.support.redelivery import redeliver
from tests.support.url_site import UrlSite


def sealed_bodies(root: Root, batch: int) -> list[bytes]:
    files = (root.path / f"spark/claims/lake/{batch}").glob("*/*")
    return [path.read_bytes() for path in sorted(files, key=lambda path: path.name)]


def test_a_crash_after_the_seal_reads_the_same_batch(
    lone_root: Root, start_driver: Callable[..., Driver]
) -> None:
    lone_root.put("orders", b"one", b"two")
    assert start_driver().next_batch(0, 1, None) == 1

    assert start_driver().next_batch(0, None, None) == 1

    assert sealed_bodies(lone_root, 1) == [b"one"]
    assert len(lone_root.names("queues")) == 1


def test_the_offset_stays_where_there_is_nothing_to_read(
    start_driver: Callable[..., Driver], lone_root: Root
) -> None:
    driver = start_driver()

    assert driver.next_batch(0, None, None) == 0

    lone_root.put("orders", b"one")
    assert driver.next_batch(0, None, None) == 1
    assert driver.next_batch(1, None, None) == 1


@pytest.mark.parametrize(
    ("max_bytes", "taken"),
    [(1, [b"aaaa"]), (4, [b"aaaa"]), (7, [b"aaaa"]), (8, [b"aaaa", b"bbbb"]), (11, [b"aaaa",
     b"bbbb"]), (12, [b"aaaa", b"bbbb", b"cccc"])],
)  # fmt: skip
def test_a_batch_holds_no_more_bytes_than_allowed_but_at_least_one_message(
    lone_root: Root, start_driver: Callable[..., Driver], max_bytes: int, taken: list[bytes]
) -> None:
    lone_root.put("orders", b"aaaa", b"bbbb", b"cccc")

    start_driver(numPartitions="1").next_batch(0, None, max_bytes)

    assert sealed_bodies(lone_root, 1) == taken


def test_a_message_that_spark_cannot_hold_is_looked_at_once(
    lone_root: Root, start_driver: Callable[..., Driver], caplog: pytest.LogCaptureFixture
) -> None:
    [long] = lone_root.put("orders", b"")
    os.truncate(lone_root.path / "queues/orders" / long, MAX_SPARK_MESSAGE_BYTES + 1)
    os.removexattr(lone_root.path / "queues/orders" / long, SEAL_ATTRIBUTE)
    driver = start_driver()

    assert [driver.next_batch(0, None, None) for _ in range(3)] == [0, 0, 0]
    lone_root.put("orders", b"one")
    assert driver.next_batch(0, None, None) == 1

    assert sealed_bodies(lone_root, 1) == [b"one"]
    assert lone_root.names("queues") == [f"orders/{long}"]
    assert caplog.text.count("which Spark cannot hold") == 1


def test_every_message_is_read_whatever_the_limit(
    lone_root: Root, start_driver: Callable[..., Driver]
) -> None:
    """One that does not fit begins the next batch: none behind it is read before."""
    lone_root.put("orders", b"a" * 5, b"b" * 2, b"c" * 9, b"d")
    driver = start_driver(numPartitions="1")

    assert [driver.next_batch(batch, None, 8) for batch in range(4)] == [1, 2, 3, 3]


def test_a_large_batch_has_as_many_messages_as_allowed_and_each_once(
    lone_root: Root, start_driver: Callable[..., Driver]
) -> None:
    bodies = [b"%04d" % number for number in range(SIDE_BY_SIDE_FROM + 500)]
    lone_root.put("orders", *bodies)
    driver = start_driver(numPartitions="3")

    batches = [driver.next_batch(batch, SIDE_BY_SIDE_FROM + 200, None) for batch in range(2)]

    assert batches == [1, 2]
    assert sealed_bodies(lone_root, 2) == bodies[SIDE_BY_SIDE_FROM + 200 :]
    done = (lone_root.path / "remove").glob("lake:.*/*/*")
    assert sorted(path.read_bytes() for path in done) == bodies[: SIDE_BY_SIDE_FROM + 200]


def test_parts_have_about_the_same_bytes(
    lone_root: Root, start_driver: Callable[..., Driver]
) -> None:
    lone_root.put("orders", bytes(400_000), *[bytes(100_000)] * 4)

    driver = start_driver(numPartitions="2")
    driver.next_batch(0, None, None)

    sizes = [
        sum(path.stat().st_size for path in (lone_root.path / "spark" / part).iterdir())
        for part in driver.parts_between(0, 1)
    ]
    assert sizes == [400_000, 400_000]


def test_what_comes_after_the_start_of_available_now_is_left(
    lone_root: Root, start_driver: Callable[..., Driver]
) -> None:
    lone_root.put("orders", b"one", b"two")
    driver = start_driver()
    driver.freeze()
    lone_root.put("orders", b"later")

    batches = [driver.next_batch(batch, 1, None) for batch in range(3)]

    assert batches == [1, 2, 2]
    assert len(lone_root.names("queues")) == 1
    assert not list((lone_root.path / "spark/claims/lake").glob("*.open.*"))


def test_available_now_ends_when_others_take_what_it_saw(
    lone_root: Root, start_driver: Callable[..., Driver]
) -> None:
    [one] = lone_root.put("orders", b"one")
    driver = start_driver()
    driver.freeze()
    (lone_root.path / "queues/orders" / one).rename(lone_root.path / "delay" / f"orders:{one}")

    assert driver.next_batch(0, None, None) == 0
    assert not list((lone_root.path / "spark/claims/lake").glob("*.open.*"))


def test_messages_are_read_oldest_first_over_all_queues(
    lone_root: Root, start_driver: Callable[..., Driver]
) -> None:
    lone_root.put("orders", b"one")
    lone_root.put("returns", b"two")
    lone_root.put("orders", b"three")
    (lone_root.path / "queues/orders/by-hand").write_bytes(b"four")

    driver = start_driver(queue="orders,returns")

    read = []
    for batch in range(1, 5):
        driver.next_batch(batch - 1, 1, None)
        read += sealed_bodies(lone_root, batch)
        driver.finish(batch)
    assert read == [b"one", b"two", b"three", b"four"]


def test_a_pattern_reads_queues_that_are_made_later(
    lone_root: Root, start_driver: Callable[..., Driver]
) -> None:
    driver = start_driver(queue="orders*")
    lone_root.put("orders.fr", b"un")

    driver.next_batch(0, None, None)

    assert sealed_bodies(lone_root, 1) == [b"un"]


def test_a_queue_must_be_there_at_the_start(start_driver: Callable[..., Driver]) -> None:
    with pytest.raises(QueueNotFound, match="there is no queue refunds"):
        start_driver(queue="orders,refunds")


def test_a_second_driver_fences_off_the_first(
    lone_root: Root, start_driver: Callable[..., Driver]
) -> None:
    lone_root.put("orders", b"one")
    first = start_driver()
    second = start_driver()

    with pytest.raises(ClaimError, match="another driver has taken over"):
        first.next_batch(0, None, None)

    assert second.next_batch(0, None, None) == 1


def test_a_driver_that_was_fenced_off_does_not_read_what_the_next_one_has_sealed(
    lone_root: Root, start_driver: Callable[..., Driver]
) -> None:
    """A driver with a copy of the checkpoint would write that once more."""
    lone_root.put("orders", b"one")
    first = start_driver()
    assert start_driver().next_batch(0, None, None) == 1

    with pytest.raises(ClaimError, match="another driver has taken over"):
        first.next_batch(0, None, None)


def test_an_old_copy_of_a_checkpoint_is_an_error(
    lone_root: Root, start_driver: Callable[..., Driver]
) -> None:
    lone_root.put("orders", b"one", b"two")
    driver = start_driver()
    driver.next_batch(0, 1, None)
    driver.finish(1)

    with pytest.raises(ClaimError, match="the checkpoint is at batch 0, but batches up to 1"):
        start_driver().next_batch(0, None, None)


def test_a_batch_that_is_done_and_still_there_is_read_again_if_spark_has_lost_its_logs(
    lone_root: Root, start_driver: Callable[..., Driver]
) -> None:
    """The power went when the floor had risen, and the sync had not ended."""
    lone_root.put("orders", b"one")
    start_driver().next_batch(0, None, None)
    group = lone_root.path / "spark/claims/lake"
    (group / "floor.0").rename(group / "floor.1")

    assert start_driver().next_batch(0, None, None) == 1

    assert sealed_bodies(lone_root, 1) == [b"one"]


def test_a_batch_that_outlasts_every_visibility_timeout_comes_to_nobody_else(
    lone_root: Root, start_driver: Callable[..., Driver], start_server: Callable[..., Any]
) -> None:
    """A claim has no lease that could run out; over HTTP the message is unknown."""
    [one] = lone_root.put("orders", b"one")
    start_driver().next_batch(0, None, None)
    server = start_server(root=lone_root.path)
    redeliver(lone_root.path, files=Files())

    url = f"{server.url}/orders/messages"
    assert urllib.request.urlopen(url).status == 204
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(urllib.request.Request(f"{url}/{one}", method="DELETE"))
    assert sealed_bodies(lone_root, 1) == [b"one"]


@pytest.mark.parametrize("commit", ["remove", "archive"])
def test_an_id_of_the_producers_own_is_known_when_its_batch_is_done(
    lone_root: Root,
    start_driver: Callable[..., Driver],
    start_server: Callable[..., Any],
    commit: str,
) -> None:
    url = f"{start_server(root=lone_root.path).url}/orders/messages"

    def publish(body: bytes) -> int:
        request = urllib.request.Request(url, body, {"X-Message-Id": "one"})
        try:
            return int(urllib.request.urlopen(request).status)
        except urllib.error.HTTPError as error:
            return error.code

    assert publish(b"body") == 201
    driver = start_driver(commit=commit)
    driver.next_batch(0, None, None)
    driver.finish(1)

    assert [publish(b"body"), publish(b"other")] == [200, 409]
    assert lone_root.names("queues") == []


def test_by_url_a_staged_message_that_cannot_be_taken_keeps_no_other_from_being_fetched(
    site: UrlSite,
) -> None:
    """Another process holds it, as a driver does that is stopped while it claims."""
    options = {**site.options, "group": "lake", "numPartitions": "1"}
    driver = Driver(parse_options(options, STREAM_READ))
    with closing(driver):
        driver.begin()
        driver.fence()
        held = site.staging / "in/queues/orders/held"
        held.write_bytes(b"held")
        with held.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            site.publish(2)

            assert driver.next_batch(0, None, None) == 1

    assert len(site.staged("in", "spark/claims/lake/1")) == 2
