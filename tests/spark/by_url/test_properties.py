"""Properties through Spark's source and sink by url."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mq.spool.spool import Spool
from pyspark_mq.by_url.forward import Forwarder, NotForwarded
from pyspark_mq.by_url.servers import ServerChoice
from tests.support.messages import sealed_with, write_message
from tests.support.url_site import UrlSite

PROPERTIES = {"x-meta-shop": "north", "traceparent": "00-1-2-01"}


def test_a_read_a_stream_and_a_write_keep_them(spark: Any, site: UrlSite, tmp_path: Path) -> None:
    rows = [("with", {"X-Meta-Shop": "north", "traceparent": "00-1-2-01"}), ("without", None)]
    frame = spark.createDataFrame(rows, "value string, properties map<string,string>")
    frame.write.format("mq").options(**site.options).mode("append").save()

    published = {each.body: dict(each.properties) for each in site.orders.peek(10)}
    peeked = spark.read.format("mq").options(**_reading(site)).load().collect()
    given = site.options | {"group": "lake"}
    writer = spark.readStream.format("mq").options(**given).load().writeStream
    writer = writer.format("parquet").option("path", str(tmp_path / "lake"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    archived = spark.read.parquet(str(tmp_path / "lake")).collect()

    expected = {b"with": PROPERTIES, b"without": {}}
    assert published == expected
    for found in (peeked, archived):
        assert {bytes(row.value): row.properties for row in found} == expected


def test_properties_that_no_server_takes_are_refused_before_they_are_committed(
    spark: Any, site: UrlSite
) -> None:
    rows = [("a", {"x-meta-sqs-attributes": "a" * 9000})]
    frame = spark.createDataFrame(rows, "value string, properties map<string,string>")

    with pytest.raises(Exception, match=r"column properties: .*8192"):
        frame.write.format("mq").options(**site.options).mode("append").save()

    assert site.staged("out", "queues") == []


def _reading(site: UrlSite) -> dict[str, str]:
    """A read needs no staging."""
    return {name: value for name, value in site.options.items() if name != "staging"}


def test_a_damaged_message_of_the_staging_is_set_aside_and_reported(
    site: UrlSite, open_in: Callable[..., Spool]
) -> None:
    spool = open_in("out")
    folder = site.staging / "out/queues/orders"
    folder.mkdir(exist_ok=True)
    seal, data = sealed_with(b"body", PROPERTIES)
    write_message(folder / "damaged", data.replace(b"north", b"south"), seal=seal)
    write_message(folder / "whole", data, seal=seal)

    with (
        ServerChoice(site.addresses(retry_seconds=0.2)) as servers,
        pytest.raises(NotForwarded, match=r"damaged .*fails its seal"),
    ):
        Forwarder(spool, servers).forward()

    assert [(each.id, dict(each.properties)) for each in site.orders.peek(10)] == [
        ("whole", PROPERTIES)
    ]
