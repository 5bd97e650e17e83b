"""Reads and writes by url, in batches and streams, as by root."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mq.client import Client
from tests.support.certificates import make_certificate
from tests.support.processes import Process, Server, start_mover
from tests.support.token_files import make_token_file
from tests.support.url_site import UrlSite

TOKEN = "writer-8wYs2Pm3qkx9tVv3TkgBrL"


def numbered(count: int) -> list[bytes]:
    return [b"%03d" % number for number in range(count)]


def publish(site: UrlSite, *bodies: bytes) -> None:
    site.orders.publish_many(bodies)


class UrlLake:
    """A query from the queue `orders` to Parquet, run as often as one likes."""

    def __init__(self, spark: Any, site: UrlSite, folder: Path) -> None:
        self.spark = spark
        self.site = site
        self.folder = folder

    def run(self, **options: str) -> Any:
        given = self.site.options | {"group": "lake"} | options
        writer = self.spark.readStream.format("mq").options(**given).load().writeStream
        writer = writer.format("parquet").option("path", str(self.folder / "lake"))
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    def rows(self) -> list[Any]:
        return list(self.spark.read.parquet(str(self.folder / "lake")).collect())

    def bodies(self) -> list[bytes]:
        return sorted(bytes(row.value) for row in self.rows())


@pytest.fixture
def lake(spark: Any, site: UrlSite, tmp_path: Path) -> UrlLake:
    return UrlLake(spark, site, tmp_path)


def write(frame: Any, site: UrlSite, **options: str) -> None:
    frame.write.format("mq").options(**site.options | options).mode("append").save()


def test_each_message_is_in_the_lake_once_over_several_runs(lake: UrlLake) -> None:
    publish(lake.site, *numbered(5))
    query = lake.run(maxMessagesPerTrigger="2")
    publish(lake.site, b"later")
    lake.run()
    lake.run()

    assert [batch["numInputRows"] for batch in query.recentProgress] == [2, 2, 1]
    assert lake.bodies() == [*numbered(5), b"later"]
    assert lake.site.orders.counts()[1:4] == (0, 0, 0)
    assert {(row.queue, row.state, row.receive_count) for row in lake.rows()} == {
        ("orders", "claimed", 1)
    }


def test_progress_shows_how_many_messages_wait_at_the_server(lake: UrlLake) -> None:
    publish(lake.site, *numbered(5))

    query = lake.run(maxMessagesPerTrigger="2")

    [source] = query.recentProgress[0]["sources"]
    assert '"waiting": 3' in source["latestOffset"]


def test_a_batch_read_looks_and_takes_nothing(spark: Any, site: UrlSite) -> None:
    publish(site, *numbered(3))
    options = {name: value for name, value in site.options.items() if name != "staging"}

    rows = spark.read.format("mq").options(**options).load().collect()

    assert sorted(bytes(row.value) for row in rows) == numbered(3)
    assert {(row.state, row.length, row.receive_count) for row in rows} == {("ready", 3, 0)}
    assert site.orders.counts().ready == 3


def test_a_batch_read_shows_a_damaged_message_without_value(spark: Any, site: UrlSite) -> None:
    publish(site, b"one", b"two")
    first = min((site.server.root / "queues/orders").iterdir())
    first.write_bytes(b"0ne")
    options = {name: value for name, value in site.options.items() if name != "staging"}
    reader = spark.read.format("mq").options(**options)

    assert {row.id: row.value for row in reader.load().collect()}[first.name] is None
    with pytest.raises(Exception, match=rf"{first.name} fails its seal"):
        reader.option("mode", "failfast").load().collect()


def test_each_row_is_a_message_at_the_server(spark: Any, site: UrlSite) -> None:
    rows = [("now", "a-1", "text/plain", 0.0), ("later", None, None, 3600.0)]
    columns = "value string, id string, content_type string, delay double"

    write(spark.createDataFrame(rows, columns), site)

    [ready] = site.orders.peek(10)
    assert (ready.id, ready.body, ready.content_type) == ("a-1", b"now", "text/plain")
    assert site.orders.counts()[1:4] == (1, 0, 1)
    assert site.staged("out", "queues") == site.staged("out", "delay") == []


def test_rows_of_one_partition_keep_their_order(spark: Any, site: UrlSite) -> None:
    write(spark.range(0, 200, 1, 1).selectExpr("cast(id as string) value"), site)

    assert site.bodies() == [str(number).encode() for number in range(200)]


def test_a_transaction_is_written_once(spark: Any, site: UrlSite) -> None:
    first = spark.createDataFrame([("one",)], "value string")
    other = spark.createDataFrame([("other",)], "value string")

    write(first, site, txnAppId="nightly", txnVersion="3")
    write(other, site, txnAppId="nightly", txnVersion="3")
    write(other, site, txnAppId="nightly", txnVersion="2")

    assert site.bodies() == [b"one"]


def test_a_queue_that_is_not_there_is_named_and_nothing_is_written(
    spark: Any, site: UrlSite
) -> None:
    frame = spark.createDataFrame(
        [("one", "orders"), ("two", "refunds")], "value string, queue string"
    )

    with pytest.raises(Exception, match="there is no queue refunds"):
        write(frame, site)

    assert site.bodies() == []


def test_a_stream_from_queue_to_queue_writes_each_message_once(
    spark: Any, site: UrlSite, tmp_path: Path
) -> None:
    site.mq.queue("copies").create()
    publish(site, *numbered(5))
    source = spark.readStream.format("mq").options(**site.options, maxMessagesPerTrigger="2")
    sink = source.load().select("value", "id").writeStream.format("mq")
    sink = sink.options(**site.options | {"queue": "copies"})
    sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))

    sink.trigger(availableNow=True).start().awaitTermination()

    assert sorted(site.bodies("copies")) == numbered(5)
    assert site.orders.counts()[1:4] == (0, 0, 0)


def test_a_server_that_is_restarted_meanwhile_loses_nothing_and_doubles_nothing(
    lake: UrlLake, start_server: Callable[..., Server], processes: list[Process]
) -> None:
    """Killed in the middle of a run; it comes back at the same port. What was in a lost answer
    comes back after its lease, as what another receiver has left."""
    server = lake.site.server
    processes.append(start_mover(server.root))
    publish(lake.site, *(b"%05d" % number for number in range(5000)))
    assert len(lake.site.orders.receive_many(3, visibility=1)) == 3

    def restart() -> None:
        server.kill()
        start_server("--visibility=3600", f"--port={server.port}", root=server.root)

    timer = threading.Timer(1.0, restart)
    timer.start()
    lake.run(maxMessagesPerTrigger="300", visibilitySeconds="2")
    timer.join()
    while sum(lake.site.orders.counts()[1:4]):
        lake.run(visibilitySeconds="2")

    assert lake.bodies() == [b"%05d" % number for number in range(5000)]


def test_of_several_addresses_one_that_answers_is_enough(lake: UrlLake) -> None:
    publish(lake.site, *numbered(3))

    lake.run(url=f"http://127.0.0.1:1, {lake.site.server.url}")

    assert lake.bodies() == numbered(3)


def test_a_server_with_tls_and_tokens_is_read_and_written(
    spark: Any, root: Path, tmp_path: Path, start_server: Callable[..., Server]
) -> None:
    pair = make_certificate(tmp_path, "server")
    tokens = make_token_file(tmp_path, f"writer read,write,admin {TOKEN}")
    token = tmp_path / "token"
    token.write_text(TOKEN)
    server = start_server(*pair.flags(), f"--token-file={tokens}", root=root)
    url = f"https://127.0.0.1:{server.port}"
    with Client(url, token=TOKEN, ca_file=pair.cert) as mq:
        mq.queue("orders").create()
    options = {
        "url": url, "queue": "orders", "caFile": str(pair.cert), "tokenFile": str(token),
    }  # fmt: skip

    frame = spark.createDataFrame([("one",)], "value string")
    writer = frame.write.format("mq").options(**options, staging=str(root.parent / "staging"))
    writer.mode("append").save()
    rows = spark.read.format("mq").options(**options).load().collect()

    assert [bytes(row.value) for row in rows] == [b"one"]
    with pytest.raises(Exception, match=r"certificate of .* is not trusted"):
        spark.read.format("mq").option("url", url).option("queue", "orders").load().collect()


@pytest.mark.parametrize(
    ("options", "detail"),
    [
        ({"staging": ""}, "option staging: missing; with url name a folder"),
        ({"staging": "relative"}, "option staging: 'relative' is not an absolute path"),
        ({"url": ""}, "option url: empty"),
        ({"root": "/srv/mq"}, "options root and url: give one of them"),
        ({"queue": "order*"}, "option queue: with url name each queue"),
        ({"visibilitySeconds": "soon"}, "option visibilitySeconds: 'soon' is not a number"),
        ({"url": "ftp://127.0.0.1"}, "is not the address of a server"),
    ],
)
def test_what_does_not_do_is_named(lake: UrlLake, options: dict[str, str], detail: str) -> None:
    with pytest.raises(Exception, match=detail):
        lake.run(**options)


def test_a_staging_of_other_servers_is_refused(lake: UrlLake) -> None:
    lake.run()

    with pytest.raises(Exception, match=r"belongs to the servers .*give each its own staging"):
        lake.run(url="http://127.0.0.1:1")
