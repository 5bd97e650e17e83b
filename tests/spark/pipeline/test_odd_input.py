"""What a data engineer gets wrong: each error names the thing, and nothing is half done."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from mq.errors import ExitCode, QueueNotFound
from pyspark_mq.options.option_values import BadOption
from pyspark_mq.pipeline.jobs.archive import ArchiveJob, archive
from pyspark_mq.pipeline.jobs.load import LoadJob, load
from pyspark_mq.pipeline.jobs.replay import ReplayJob, replay
from pyspark_mq.pipeline.places import QueuePlace
from pyspark_mq.pipeline.running.causes import JobRefused, failure_of
from pyspark_mq.pipeline.running.progress import ProgressLine
from tests.support.lone_root import Root


class OddInput:
    """Files and a root, and the jobs on them."""

    def __init__(self, spark: Any, root: Root, folder: Path) -> None:
        self.spark = spark
        self.root = root
        self.folder = folder
        self.place = QueuePlace(root=str(root.path))
        self.line = ProgressLine("job", StringIO())

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def load(self, kind: str, path: str, body: str | None = None, to: str = "orders") -> int:
        job = LoadJob((path,), kind, to, body)
        return load(self.spark, self.place, job, self.line)

    def archive(self, schema: str | None = None, queues: str = "orders") -> int:
        job = ArchiveJob(queues, str(self.folder / "lake"), "archive", True, 1.0, 1000, schema)
        return archive(self.spark, self.place, job, self.line, Event())

    def replay(self, **asked: Any) -> int:
        job = ReplayJob(**({"lake": str(self.folder / "lake"), "to": "again"} | asked))
        return replay(self.spark, self.place, job, self.line)

    def rows(self) -> list[Any]:
        reader = self.spark.read.option("mergeSchema", "true")
        return list(reader.parquet(str(self.folder / "lake")).collect())

    def bodies(self, queue: str = "orders") -> list[bytes]:
        return sorted(path.read_bytes() for path in (self.root.path / "queues" / queue).iterdir())


@pytest.fixture
def bench(spark: Any, lone_root: Root, tmp_path: Path) -> OddInput:
    lone_root.make("again")
    return OddInput(spark, lone_root, tmp_path)


def test_each_body_that_does_not_fit_the_schema_is_in_the_column_for_it(bench: OddInput) -> None:
    good = [b'{"item":"tea","price":1.5}', b'{"item":5,"more":[1]}', b"{}", b' {"item":"a"}\n']
    bad = [b'{"item":"x","price":"much"}', b"", b"5", b'{"item":"a"} and more', b'{"item":"a"},{}',
           b"\xff\x00", b'[{"item":"a"},{"item":"b"}]', b"{"]  # fmt: skip
    bench.root.put("orders", *good, *bad)

    assert bench.archive("item string, price double") == len(good) + len(bad)

    kept = {bytes(row.value): row.bad_body for row in bench.rows()}
    assert kept == dict.fromkeys(good) | {each: each.decode("utf-8", "replace") for each in bad}


def test_a_column_of_bodies_keeps_its_type_and_others_may_be_added(bench: OddInput) -> None:
    bench.root.put("orders", b'{"item":"tea","price":1.5}')
    bench.archive("item string, price double")
    bench.root.put("orders", b'{"item":"milk","count":3}')

    for schema in ("price string", "Price struct<x:int>"):
        with pytest.raises(
            JobRefused, match=r"column [Pp]rice is .*, and the lake has it as double"
        ):
            bench.archive(schema)
    assert bench.archive("count int, item string") == 1
    assert bench.archive("item string, price double") == 0

    assert sorted((row.body.item, row.body.price, row.body["count"]) for row in bench.rows()) == [
        ("milk", None, 3), ("tea", 1.5, None),
    ]  # fmt: skip
    assert bench.replay(where="body.price > 1") == 1


@pytest.mark.parametrize("schema", ["item strin, price", "", "a int, A int", "value <"])
def test_a_schema_that_is_none_is_refused_before_the_lake_is_made(
    bench: OddInput, schema: str
) -> None:
    with pytest.raises(JobRefused, match=r"--schema .*write it as"):
        bench.archive(schema)

    assert not (bench.folder / "lake").exists()


def test_queues_that_cannot_be_read_or_written_are_named_before_the_work(bench: OddInput) -> None:
    csv = bench.file("a.csv", "a\n1\n")

    for name, error, text in (
        ("nothing", QueueNotFound, "there is no queue nothing"),
        ("shop.fifo", BadOption, "shop.fifo is a FIFO queue"),
        ("../x", BadOption, r"queue name '\.\./x'"),
    ):
        with pytest.raises(error, match=text):
            bench.archive(queues=name)
        with pytest.raises(error, match=text):
            bench.load("csv", csv, to=name)
        with pytest.raises(error, match=text):
            bench.replay(to=name)
    for not_one in ("orders,again", "or*", "", " "):
        with pytest.raises(BadOption, match=r"--to .*: name one queue"):
            bench.load("csv", csv, to=not_one)
    assert not (bench.folder / "lake").exists()


def test_what_a_replay_cannot_use_is_named(bench: OddInput) -> None:
    with pytest.raises(JobRefused, match="there is no lake"):
        bench.replay()
    assert not (bench.folder / "lake").exists()
    bench.root.put("orders", b"one")
    bench.archive()

    for asked, text in (
        ({"since": "yesterday"}, "--since 'yesterday' is not a time"),
        ({"until": "2026-13-45"}, "--until '2026-13-45' is not a time"),
        ({"since": "0001-01-01T00:00+02:00"}, "--since '0001-01-01.*' is not a time"),
        ({"until": "9999-12-31T23:00-02:00"}, "--until '9999-12-31.*' is not a time"),
        ({"where": "price > 10"}, r"--where 'price > 10': .*`price`.*; the columns are id, value"),
        ({"where": "length >"}, "--where 'length >': Syntax error"),
        ({"where": "queue"}, "--where 'queue': .*is not a boolean"),
    ):
        with pytest.raises(JobRefused, match=text):
            bench.replay(**asked)
    assert bench.bodies("again") == []


def test_a_replay_of_nothing_is_not_done_and_gets_what_comes_later(bench: OddInput) -> None:
    (bench.folder / "lake").mkdir()
    name = ReplayJob(lake=str(bench.folder / "lake"), to="again").write_name

    assert bench.replay() == 0
    assert not bench.place.has_written(name)
    bench.root.put("orders", b"one")
    bench.archive()
    assert bench.replay(queues=("nothing",)) == 0
    assert [bench.replay(), bench.replay()] == [1, 0]

    assert bench.place.has_written(name)
    assert bench.bodies("again") == [b"one"]


def test_times_are_in_utc_unless_they_say_otherwise(bench: OddInput) -> None:
    four = 1_792_555_200  # 2026-10-21 04:00:00 UTC
    bench.root.put("orders", b"one", published_ns=four * 10**9)
    bench.archive()

    assert bench.replay(since="2026-10-21 04:00:01") == 0
    assert bench.replay(until="2026-10-21 04:00") == 0
    assert bench.replay(since="2026-10-21T06:00:01+02:00") == 0
    assert bench.replay(since="2026-10-21T06:00:00+02:00", until="2026-10-22") == 1


@pytest.mark.parametrize("zone", ["Pacific/Auckland", "America/Havana"])
def test_a_day_of_the_lake_is_one_in_utc_whatever_the_zone_of_the_session(
    bench: OddInput, zone: str
) -> None:
    late = 1_793_577_599  # 2026-11-01 23:59:59 UTC; in Havana a clock goes back on this day
    bench.root.put("orders", b"late", published_ns=late * 10**9)
    bench.root.put("orders", b"early", published_ns=(late + 1) * 10**9)

    bench.spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        bench.archive()
    finally:
        bench.spark.conf.set("spark.sql.session.timeZone", "UTC")

    days = {path.parent.name for path in bench.folder.glob("lake/queue=orders/*/*.parquet")}
    assert days == {"day=2026-11-01", "day=2026-11-02"}
    assert sorted((str(row.day), bytes(row.value)) for row in bench.rows()) == [
        ("2026-11-01", b"late"), ("2026-11-02", b"early"),
    ]  # fmt: skip


def test_parquet_that_no_archive_has_made_is_refused(bench: OddInput) -> None:
    folder = bench.folder / "lake/queue=a"
    folder.mkdir(parents=True)
    parquet.write_table(pa.table({"a": [1]}), folder / "x.parquet")

    with pytest.raises(JobRefused, match="has no column id, so it is not part of a lake"):
        bench.replay()


CSV = '''item,note
tea,"two
lines, and a ""quote"""
"",last
'''


def test_csv_has_fields_of_several_lines_and_names_with_dots(bench: OddInput) -> None:
    bench.load("csv", bench.file("a.csv", CSV))
    bench.load("csv", bench.file("b.csv", "a.b,c d\n1,2\n"))
    bench.load("csv", bench.file("c.csv", "a.b,c d\n1,2\n"), body="a.b")

    *found, plain = sorted(bench.bodies(), reverse=True)
    assert [json.loads(each) for each in found] == [
        {"note": "last"}, {"item": "tea", "note": 'two\nlines, and a "quote"'},
        {"a.b": "1", "c d": "2"},
    ]  # fmt: skip
    assert plain == b"1"


@pytest.mark.parametrize(
    ("kind", "text", "body", "why"),
    [
        ("csv", "a,b\n1,2,3\n", None, "cannot be read as csv: .*[Mm]alformed"),
        ("csv", "a,b\n1\n", "a", "cannot be read as csv: .*[Mm]alformed"),
        ("csv", "a,b\n1,2\n,3\n", "a", "1 of 2 rows have null where their message should be"),
        ("json", '{"a":1}\n{"a":\n', None, "has a line that is not JSON: '{\"a\":'"),
        ("json", '{"a":1}\n{"b":1}\n', "a", "1 of 2 rows have null"),
        ("json", '{"a":1}\n', "b", "there is no column b in .*; there are a"),
        ("csv", "a,a\n1,2\n", None, "cannot be read as csv: .* or one names a column twice"),
        ("parquet", "a,b\n", None, "cannot be read as parquet"),
    ],
)
def test_files_that_are_not_what_the_job_says_are_named_and_nothing_is_published(
    bench: OddInput, kind: str, text: str, body: str | None, why: str
) -> None:
    path = bench.file("rows", text)

    with pytest.raises(JobRefused, match=why):
        bench.load(kind, path, body)

    assert bench.bodies() == []


def test_files_that_are_not_there_are_named(bench: OddInput) -> None:
    (bench.folder / "empty").mkdir()

    for kind in ("csv", "json", "parquet"):
        with pytest.raises(JobRefused, match=r"nothing\.x cannot be read as .*does not exist"):
            bench.load(kind, str(bench.folder / "nothing.x"))
    with pytest.raises(JobRefused, match="empty cannot be read as parquet"):
        bench.load("parquet", str(bench.folder / "empty"))


def test_files_without_rows_publish_nothing_and_use_no_name_up(bench: OddInput) -> None:
    for kind, text in (("csv", ""), ("csv", "a,b\n"), ("json", ""), ("json", "\n\n")):
        path = bench.file("rows", text)
        assert bench.load(kind, path) == 0
        job = LoadJob((path,), kind, "orders")
        assert not bench.place.has_written(job.write_name)


def test_values_of_other_types_become_text_and_nested_ones_json(bench: OddInput) -> None:
    table = pa.table({"value": [1.5, 2.0], "id": [7, 8], "of": [{"a": 1}, {"a": 2}]})
    parquet.write_table(table, bench.folder / "rows.parquet")

    bench.load("parquet", str(bench.folder / "rows.parquet"))
    bench.load("parquet", str(bench.folder / "rows.parquet"), body="of", to="again")

    queues = bench.root.path / "queues"
    assert {path.name: path.read_bytes() for path in (queues / "orders").iterdir()} == {
        "7": b"1.5", "8": b"2.0",
    }  # fmt: skip
    assert bench.bodies("again") == [b'{"a":1}', b'{"a":2}']


def test_an_id_that_cannot_be_one_fails_the_load_as_a_whole_and_for_good(bench: OddInput) -> None:
    path = bench.file("ids.csv", "value,id\nx,good\ny,a bad one!\n")

    with pytest.raises(Exception, match="a bad one!") as found:
        bench.load("csv", path)

    assert failure_of(found.value).exit_code is ExitCode.USAGE
    assert bench.bodies() == []
