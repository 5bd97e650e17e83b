"""A batch read by url, without Spark."""

from __future__ import annotations

import os
from typing import Any
from urllib.request import urlopen

import pyarrow as pa
import pytest

from mq.client import Client, Peeked
from mq.client.messages import PeekedState
from mq.spool.message.seal import MAX_RECEIVE_COUNT, SEAL_ATTRIBUTE
from pyspark_mq.options.options import BATCH_READ, parse_options
from pyspark_mq.reading import peek_read
from pyspark_mq.reading.peek_read import PeekReader, _looks
from tests.support.messages import read_seal
from tests.support.url_site import UrlSite


def rows_at(site: UrlSite, queues: str, states: str = "ready") -> list[dict[str, object]]:
    given = {"url": site.server.url, "queue": queues, "states": states}
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


def states_of(rows: list[dict[str, object]]) -> dict[tuple[object, object], object]:
    return {(row["queue"], row["value"]): row["state"] for row in rows}


def test_messages_are_shown_in_the_states_that_are_asked_for(site: UrlSite) -> None:
    site.orders.publish("leased")
    site.orders.receive()
    site.orders.publish("delayed", delay=3600)
    site.orders.publish("ready")
    dead = site.mq.queue("orders.dead")
    dead.create()
    dead.publish("dead")
    expected = {("orders", each): each.decode() for each in (b"leased", b"delayed", b"ready")}
    expected["orders.dead", b"dead"] = "dead"

    rows = rows_at(site, "orders", "ready,leased,delayed,dead")

    assert states_of(rows) == expected
    assert len(rows) == len(expected)
    for (queue, body), state in expected.items():
        assert states_of(rows_at(site, "orders", state)) == {(queue, body): state}
    assert states_of(rows_at(site, "orders.dead")) == {("orders.dead", b"dead"): "dead"}
    assert states_of(rows_at(site, "orders.dead,orders", "dead")) == {
        ("orders.dead", b"dead"): "dead"
    }
    dead.receive()
    assert states_of(rows_at(site, "orders,orders.dead", "dead,leased")) == {
        ("orders", b"leased"): "leased",
        ("orders.dead", b"dead"): "leased",
    }


def test_a_queue_without_dead_letters_has_none(site: UrlSite) -> None:
    site.orders.publish("ready")

    assert rows_at(site, "orders", "dead") == []
    assert [row["state"] for row in rows_at(site, "orders", "dead,ready")] == ["ready"]


def test_what_changes_its_state_meanwhile_is_shown_once(
    site: UrlSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    for body in ("comes back", "stays", "is received"):
        site.orders.publish(body)
    comes_back = site.orders.receive()
    assert comes_back is not None
    [_, last] = site.orders.peek(2)
    peek_as_usual = peek_read._peek

    def peek(mq: Client, *, state: PeekedState, **asked: Any) -> list[Peeked]:
        if state == "ready" and not comes_back.is_settled:
            comes_back.release()
            urlopen(f"{site.server.url}/orders/messages?id={last.id}").close()
        return peek_as_usual(mq, state=state, **asked)

    monkeypatch.setattr(peek_read, "_peek", peek)

    rows = rows_at(site, "orders", "ready,leased")

    assert [(row["value"], row["state"]) for row in rows] == [
        (b"comes back", "leased"), (b"stays", "ready"), (b"is received", "leased")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("states", "looks"),
    [
        (("ready",), ("ready",)),
        (("leased", "dead"), ("leased",)),
        (("ready", "delayed"), ("delayed", "ready", "delayed")),
        (("dead",), ()),
    ],
)
def test_hidden_ones_are_looked_for_before_and_behind_ready_ones(
    states: tuple[str, ...], looks: tuple[str, ...]
) -> None:
    assert _looks(states) == looks
