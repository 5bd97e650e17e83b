"""A batch read by url, without Spark."""

from __future__ import annotations

import os

import pyarrow as pa

from mq.spool.message.seal import MAX_RECEIVE_COUNT, SEAL_ATTRIBUTE
from pyspark_mq.by_url.peek_read import PeekReader
from pyspark_mq.options import BATCH_READ, parse_options
from tests.support.messages import read_seal
from tests.support.url_site import UrlSite


def rows_at(site: UrlSite, queues: str) -> list[dict[str, object]]:
    given = {"url": site.server.url, "queue": queues}
    reader = PeekReader(parse_options(given, BATCH_READ))
    batches: list[pa.RecordBatch] = []
    for part in reader.partitions():
        batches += reader.read(part)
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_count_that_the_column_cannot_hold_is_the_largest_that_it_can(site: UrlSite) -> None:
    site.orders.publish("one")
    [path] = (site.server.root / "queues/orders").iterdir()
    often = read_seal(path)._replace(receive_count=MAX_RECEIVE_COUNT)
    os.setxattr(path, SEAL_ATTRIBUTE, often.pack())

    [row] = rows_at(site, "orders")

    assert row["receive_count"] == 2**31 - 1


def test_a_queue_that_is_named_twice_is_read_once(site: UrlSite) -> None:
    site.orders.publish("one")

    assert len(rows_at(site, "orders, orders")) == 1
