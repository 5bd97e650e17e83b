"""What waits in a staging is read as it was written, by any of the ways to read it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mq.client.messages import Body
from mq.config import KIB
from mq.disk.files import Files
from mq.names import QueueName
from mq.spool.message.seal import TYPE_ATTRIBUTE
from mq.spool.spool import Spool
from pyspark_mq.by_url.committed import delayed_messages, read_committed, ready_messages
from pyspark_mq.by_url.staging import open_staging, prepare_staging
from tests.support.messages import seal_of, stamp, write_message

ORDERS = QueueName("orders")


@pytest.fixture
def spool(root: Path) -> Spool:
    prepare_staging(root, ("http://127.0.0.1:1",))
    (root / "queues/orders").mkdir()
    return open_staging(root, Files())


def write(spool: Spool, message_id: str, body: bytes, **sealed: int) -> Path:
    path = spool.root / "queues/orders" / message_id
    write_message(path, body, seal=seal_of(body, **sealed))
    return path


def read(spool: Spool) -> dict[str, Body | None]:
    waiting = ready_messages(spool, ORDERS)
    return {
        place.message_id: None if message is None else message.body
        for place, message in read_committed(spool, waiting)
    }


def test_small_and_large_messages_are_read_in_order(spool: Spool) -> None:
    bodies = {f"id-{number:03}": b"x" * number * KIB for number in (0, 1, 64, 65, 300)}
    for number, (message_id, body) in enumerate(bodies.items()):
        write(spool, message_id, body, published_ns=number + 1)

    assert list(read(spool).items()) == list(bodies.items())


def test_a_damaged_message_has_nothing_to_publish_and_the_others_are_read(spool: Spool) -> None:
    write(spool, "id-1", b"one", published_ns=1).write_bytes(b"0ne")
    write(spool, "id-2", b"two", published_ns=2)

    assert read(spool) == {"id-1": None, "id-2": b"two"}


def test_a_message_that_another_process_has_published_is_left_out(spool: Spool) -> None:
    path = write(spool, "id-1", b"one")
    waiting = ready_messages(spool, ORDERS)
    path.unlink()

    assert list(read_committed(spool, waiting)) == []


def test_a_queue_that_is_gone_has_no_messages(spool: Spool) -> None:
    path = write(spool, "id-1", b"one")
    waiting = ready_messages(spool, ORDERS)
    path.unlink()
    path.parent.rmdir()

    assert list(read_committed(spool, waiting)) == []


def test_type_and_delay_are_kept(spool: Spool) -> None:
    path = spool.root / "delay/orders:later"
    write_message(path, b"{}", seal=seal_of(b"{}"))
    os.setxattr(path, TYPE_ATTRIBUTE, b"application/json")
    stamp(path, 3600)

    [(_, message)] = read_committed(spool, delayed_messages(spool)[ORDERS])

    assert message is not None
    assert message.content_type == "application/json"
    assert message.delay is not None
    assert 3590 <= message.delay <= 3600
