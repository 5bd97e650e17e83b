"""A batch read shows messages that move while it looks, each once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition

from mq.disk.files import Files
from mq.lifecycle import Actor, Folder
from mq.spool.root import visit_root
from mq.spool.spool import Spool
from pyspark_mq.options.options import BATCH_READ, Options, parse_options
from pyspark_mq.reading.batch_read import BatchReader, find_messages
from tests.support.lone_root import Root


def options_of(root: Root, states: str) -> Options:
    given = {"root": str(root.path), "queue": "orders", "states": states}
    return parse_options(given, BATCH_READ)


def reader_of(root: Root, states: str) -> BatchReader:
    return BatchReader(options_of(root, states))


def rows_in(reader: BatchReader, partitions: Iterable[InputPartition]) -> list[dict[str, Any]]:
    """What the tasks of a read return, without Spark."""
    return [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("begin", "end"),
    [("queues/orders/{}", "delay/orders:{}"), ("delay/orders:{}", "queues/orders/{}")],
)
@pytest.mark.parametrize("look", ["names", "names_in_queue"])
def test_a_listing_finds_a_message_that_moves_before_a_look(
    lone_root: Root, monkeypatch: pytest.MonkeyPatch, begin: str, end: str, look: str
) -> None:
    [message_id] = lone_root.put("orders", b"one", lease=7)
    places = [lone_root.path / place.format(message_id) for place in (begin, end)]
    if not places[0].exists():
        places[1].rename(places[0])
    list_names = getattr(Spool, look)

    def move_first(spool: Spool, *what: Any) -> list[str]:
        if what != (Folder.QUEUES,) and places[0].exists():
            places[0].rename(places[1])
        names: list[str] = list_names(spool, *what)
        return names

    monkeypatch.setattr(Spool, look, move_first)

    reader = reader_of(lone_root, "ready,leased")
    assert [row["value"] for row in rows_in(reader, reader.partitions())] == [b"one"]
    assert places[1].exists()


def test_a_listing_finds_a_message_once_while_it_moves(lone_root: Root) -> None:
    [message_id] = lone_root.put("orders", b"one")
    queued = lone_root.path / "queues/orders" / message_id
    (lone_root.path / "delay" / f"orders:{message_id}").hardlink_to(queued)
    spool = visit_root(lone_root.path, Files(), Actor.SERVER)

    found = find_messages(spool, options_of(lone_root, "ready,leased,delayed"))
    spool.close()

    assert [place.message_id for place in found] == [message_id]


def test_a_message_that_moved_on_after_the_listing_is_still_read(lone_root: Root) -> None:
    [message_id] = lone_root.put("orders", b"one", lease=7)
    reader = reader_of(lone_root, "ready,leased")
    [partition] = reader.partitions()
    (lone_root.path / "queues/orders" / message_id).rename(
        lone_root.path / "delay" / f"orders:{message_id}"
    )

    [row] = rows_in(reader, [partition])

    assert (row["value"], row["state"]) == (b"one", "leased")


def test_a_message_that_was_reaped_after_the_listing_is_left_out(lone_root: Root) -> None:
    gone, stays = lone_root.put("orders", b"one", b"two")
    reader = reader_of(lone_root, "ready")
    partitions = reader.partitions()
    (lone_root.path / "queues/orders" / gone).unlink()

    assert [row["id"] for row in rows_in(reader, partitions)] == [stays]
