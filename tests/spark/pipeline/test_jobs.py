"""archive, replay, load and report as they are called, in one Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from mq.errors import CommandFailed
from pyspark_mq.pipeline.jobs.archive import ArchiveJob
from pyspark_mq.pipeline.jobs.archive import archive as run_archive
from pyspark_mq.pipeline.jobs.load import LoadJob, load
from pyspark_mq.pipeline.jobs.replay import ReplayJob, replay
from pyspark_mq.pipeline.places import QueuePlace
from pyspark_mq.pipeline.report.report import take_report
from pyspark_mq.pipeline.running.causes import JobRefused
from pyspark_mq.pipeline.running.progress import ProgressLine
from tests.support.lone_root import Root
from tests.support.messages import read_seal, sealed_with, write_message
from tests.support.url_site import UrlSite


def archive(spark: Any, place: QueuePlace, job: ArchiveJob, line: ProgressLine) -> int:
    return run_archive(spark, place, job, line, Event())


@pytest.fixture
def line() -> ProgressLine:
    return ProgressLine("job", StringIO())


def archive_job(folder: Path, **settings: Any) -> ArchiveJob:
    given: dict[str, Any] = {"queues": "orders", "lake": str(folder / "lake"), "group": "archive",
             "is_once": True, "every_seconds": 1.0, "batch_messages": 1000} | settings  # fmt: skip
    return ArchiveJob(**given)


def place_of(root: Root) -> QueuePlace:
    return QueuePlace(root=str(root.path))


def lake_of(spark: Any, folder: Path) -> Any:
    return spark.read.parquet(str(folder / "lake"))


def bodies(root: Root, queue: str) -> list[bytes]:
    return sorted(path.read_bytes() for path in (root.path / "queues" / queue).iterdir())


def test_an_archive_has_each_message_once_by_queue_and_day(
    spark: Any, lone_root: Root, tmp_path: Path, line: ProgressLine
) -> None:
    place, job = place_of(lone_root), archive_job(tmp_path, queues="*", batch_messages=2)
    noon = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) * 10**9
    lone_root.put("orders", b"one", b"two", published_ns=noon)
    lone_root.put("returns", b"three", published_ns=noon + 86_400 * 10**9)

    assert archive(spark, place, job, line) == 3
    lone_root.put("orders", b"later", published_ns=noon)
    assert archive(spark, place, job, line) == 1
    assert archive(spark, place, job, line) == 0

    rows = lake_of(spark, tmp_path).collect()
    assert sorted((row.queue, str(row.day), bytes(row.value)) for row in rows) == [
        ("orders", "2026-03-01", b"later"),
        ("orders", "2026-03-01", b"one"),
        ("orders", "2026-03-01", b"two"),
        ("returns", "2026-03-02", b"three"),
    ]
    assert lone_root.names("queues") == []


def test_bodies_of_json_become_columns_and_bad_ones_are_kept(
    spark: Any, lone_root: Root, tmp_path: Path, line: ProgressLine
) -> None:
    good = json.dumps({"item": "tea", "price": 2.5}).encode()
    half = json.dumps({"item": "tea", "price": "much"}).encode()
    lone_root.put("orders", good, half, b"\xff\x00")

    job = archive_job(tmp_path, schema="item string, price double")
    archive(spark, place_of(lone_root), job, line)

    rows = {bytes(row.value): row for row in lake_of(spark, tmp_path).collect()}
    assert (rows[good].body.item, rows[good].body.price, rows[good].bad_body) == ("tea", 2.5, None)
    assert rows[half].bad_body == half.decode()
    assert rows[b"\xff\x00"].bad_body is not None
    assert rows[b"\xff\x00"].body.item is None


def test_a_second_lake_with_the_same_group_is_refused_by_its_name(
    spark: Any, lone_root: Root, tmp_path: Path, line: ProgressLine
) -> None:
    lone_root.put("orders", b"one")
    archive(spark, place_of(lone_root), archive_job(tmp_path), line)
    archive(spark, place_of(lone_root), archive_job(tmp_path), line)
    lone_root.put("orders", b"two")

    other = archive_job(tmp_path, lake=str(tmp_path / "other"))
    with pytest.raises(CommandFailed, match="group archive belongs to query"):
        archive(spark, place_of(lone_root), other, line)


@pytest.fixture
def archived(spark: Any, lone_root: Root, tmp_path: Path, line: ProgressLine) -> Root:
    """A root whose messages 0 to 9 are in the lake; queue `again` is empty."""
    lone_root.make("again")
    lone_root.put("orders", *(b"%d" % number for number in range(10)))
    archive(spark, place_of(lone_root), archive_job(tmp_path), line)
    return lone_root


def test_a_replay_publishes_each_message_once_however_often_it_is_run(
    spark: Any, archived: Root, tmp_path: Path, line: ProgressLine
) -> None:
    job = ReplayJob(lake=str(tmp_path / "lake"), to="again")

    assert replay(spark, place_of(archived), job, line) == 10
    assert replay(spark, place_of(archived), job, line) == 0

    assert bodies(archived, "again") == [b"%d" % number for number in range(10)]


def test_a_replay_takes_what_its_filters_name(
    spark: Any, archived: Root, tmp_path: Path, line: ProgressLine
) -> None:
    lake, place = str(tmp_path / "lake"), place_of(archived)
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat(" ")
    where = "cast(value as string) in ('3', '4')"

    assert replay(spark, place, ReplayJob(lake, "again", where=where), line) == 2
    assert replay(spark, place, ReplayJob(lake, "again", since=tomorrow), line) == 0
    assert replay(spark, place, ReplayJob(lake, "again", queues=("returns",)), line) == 0
    named = ReplayJob(lake, "again", until=tomorrow, where=where, name="once-more")
    assert replay(spark, place, named, line) == 2

    assert bodies(archived, "again") == [b"3", b"3", b"4", b"4"]


def test_a_replay_keeps_the_order_of_publication_whatever_the_number_of_rows(
    spark: Any, lone_root: Root, tmp_path: Path, line: ProgressLine
) -> None:
    place, times = place_of(lone_root), [number * 7919 % 2000 for number in range(2000)]
    lone_root.make("again")
    for time_ns in times:
        lone_root.put("orders", b"%d" % time_ns, published_ns=time_ns * 1000)
    archive(spark, place, archive_job(tmp_path, batch_messages=500), line)
    session = spark.newSession()
    # As with many rows: Spark makes one partition of few.
    session.conf.set("spark.sql.adaptive.enabled", "false")

    replay(session, place, ReplayJob(lake=str(tmp_path / "lake"), to="again"), line)

    paths = (lone_root.path / "queues/again").iterdir()
    found = sorted((read_seal(path).published_ns, int(path.read_bytes())) for path in paths)
    assert [number for _, number in found] == sorted(times)


def test_a_replay_can_keep_the_ids(
    spark: Any, archived: Root, tmp_path: Path, line: ProgressLine
) -> None:
    ids = {row.id for row in lake_of(spark, tmp_path).collect()}

    replay(
        spark, place_of(archived), ReplayJob(str(tmp_path / "lake"), "again", keeps_ids=True), line
    )

    assert {path.name for path in (archived.path / "queues/again").iterdir()} == ids


def test_rows_of_files_are_loaded_once(
    spark: Any, lone_root: Root, tmp_path: Path, line: ProgressLine
) -> None:
    csv, lines = tmp_path / "orders.csv", tmp_path / "orders.jsonl"
    csv.write_text("item,price\ntea,2.50\ncoffee,3\n")
    lines.write_text('{"item":"milk"}\n\n{"item": "sugar"}\n')
    spark.createDataFrame([("a-1", "text/plain", b"whole")], "id string, content_type string, "
                          "value binary").write.parquet(str(tmp_path / "rows"))  # fmt: skip
    place = place_of(lone_root)
    jobs = [
        LoadJob((str(csv),), "csv", "orders"),
        LoadJob((str(csv),), "csv", "orders", body="item"),
        LoadJob((str(lines),), "json", "orders"),
        LoadJob((str(tmp_path / "rows"),), "parquet", "orders"),
    ]

    for count in ([2, 2, 2, 1], [0, 0, 0, 0]):
        assert [load(spark, place, job, line) for job in jobs] == count

    assert bodies(lone_root, "orders") == sorted(
        [b'{"item":"tea","price":"2.50"}', b'{"item":"coffee","price":"3"}', b"tea", b"coffee",
         b'{"item":"milk"}', b'{"item": "sugar"}', b"whole"]
    )  # fmt: skip
    with pytest.raises(JobRefused, match=r"no column note in .*; there are item, price"):
        load(spark, place, LoadJob((str(csv),), "csv", "orders", body="note"), line)


def test_a_report_counts_what_is_there(spark: Any, lone_root: Root, line: ProgressLine) -> None:
    now = datetime.now(UTC)
    hour_ago = int((now - timedelta(hours=2)).timestamp()) * 10**9
    lone_root.put("orders", b"1234", b"12")
    lone_root.put("orders", b"old", published_ns=hour_ago, count=7)
    lone_root.put("orders", b"leased", folder="delay", lease=5, count=1)
    lone_root.put("orders", b"delayed", folder="delay")
    lone_root.put("orders.dead", b"dead", published_ns=hour_ago)
    lone_root.make("returns")

    taken = take_report(spark, place_of(lone_root), "", line, now)
    named = take_report(spark, place_of(lone_root), "returns", line, now)
    dead = take_report(spark, place_of(lone_root), "orders.dead", line, now)

    [orders] = taken.queues
    assert (orders.queue, orders.ready, orders.leased, orders.delayed, orders.dead) == (
        "orders", 3, 1, 1, 1,
    )  # fmt: skip
    assert orders.bytes == sum(map(len, (b"1234", b"12", b"old", b"leased", b"delayed", b"dead")))
    assert orders.ages == [4, 0, 0, 1, 0, 0, 0]
    assert orders.counts == [3, 1, 0, 0, 0, 1]
    assert 7199 <= (orders.oldest_seconds or 0) <= 7300
    assert 7199 <= (orders.oldest_dead_seconds or 0) <= 7300
    assert [(each.queue, each.ready) for each in named.queues] == [("returns", 0)]
    assert [(each.queue, each.ready, each.dead) for each in dead.queues] == [("orders", 0, 1)]


def test_all_of_them_work_by_url(
    spark: Any, site: UrlSite, tmp_path: Path, line: ProgressLine
) -> None:
    place = QueuePlace(url=site.server.url, staging=str(site.staging))
    for queue in ("again", "orders.dead"):
        site.mq.queue(queue).create()
    published = [f"message {number}".encode() for number in range(50)]
    site.orders.publish("leased")
    leased = site.orders.receive()
    assert leased is not None
    site.orders.publish_many(published)
    site.mq.queue("orders.dead").publish("dead")

    before = take_report(spark, place, "orders", line)
    leased.ack()
    assert archive(spark, place, archive_job(tmp_path), line) == 50
    job = ReplayJob(str(tmp_path / "lake"), "again")
    assert [replay(spark, place, job, line) for _ in range(2)] == [50, 0]

    [orders] = before.queues
    assert (orders.queue, orders.ready, orders.leased, orders.dead) == ("orders", 50, 1, 1)
    assert orders.bytes == sum(map(len, (*published, b"leased", b"dead")))
    assert orders.counts == [50, 1, 0, 0, 0, 0]
    assert sorted(site.bodies("again")) == sorted(published)
    assert site.orders.counts()[1:4] == (0, 0, 0)


def test_properties_go_to_the_lake_and_back(
    spark: Any, lone_root: Root, tmp_path: Path, line: ProgressLine
) -> None:
    seal, data = sealed_with(b"one", {"x-meta-shop": "north"})
    write_message(lone_root.path / "queues/orders/one", data, seal=seal)
    lone_root.put("orders", b"two")
    archive(spark, place_of(lone_root), archive_job(tmp_path), line)
    lone_root.make("again")

    job = ReplayJob(lake=str(tmp_path / "lake"), to="again", name="again")
    assert replay(spark, place_of(lone_root), job, line) == 2

    given = {"root": str(lone_root.path), "queue": "again"}
    rows = spark.read.format("mq").options(**given).load().collect()
    assert {bytes(row.value): row.properties for row in rows} == {
        b"one": {"x-meta-shop": "north"}, b"two": {},
    }  # fmt: skip
