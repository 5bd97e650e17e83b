"""Many messages looked at by chains of file calls, as `look_at` does at one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mq.config import SMALL_BODY_BYTES
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.message.burial import DEAD_ATTRIBUTE
from mq.spool.message.glances import Glance, glance_at_ready
from mq.spool.message.seal import SEAL_ATTRIBUTE
from mq.spool.message.trailer import pack_trailer, sealed
from mq.spool.queue.queues import make_queue
from mq.spool.spool import Spool
from tests.support.descriptors import open_files
from tests.support.users import NOBODY, needs_root

ORDERS = QueueName("orders")
PROPERTIES = {"x-meta-shop": "north"}


@pytest.fixture
def spool(either_spool: Spool) -> Spool:
    make_queue(either_spool.files, either_spool.fd(Folder.QUEUES), ORDERS)
    glances_at(either_spool, "first")  # From here on the folder of the queue is open.
    return either_spool


def put(root: Path, name: str, body: bytes = b"body") -> Path:
    path, trailer = root / "queues" / ORDERS / name, pack_trailer(PROPERTIES)
    path.write_bytes(body + trailer)
    os.setxattr(path, SEAL_ATTRIBUTE, sealed(body, trailer, 5).pack())
    return path


def glances_at(spool: Spool, *names: str) -> list[Glance | None]:
    return list(glance_at_ready(spool, ORDERS, [MessageId(each) for each in names]))


def test_a_look_has_seal_properties_and_burial(spool: Spool, root: Path) -> None:
    put(root, "1")
    os.setxattr(put(root, "2", b""), DEAD_ATTRIBUTE, b"lunch spilled")
    before = open_files()

    first, second = glances_at(spool, "1", "2")

    assert first == Glance(sealed(b"body", pack_trailer(PROPERTIES), 5), PROPERTIES, None)
    assert second is not None
    assert (second.seal.length, second.burial) == (0, b"lunch spilled")
    assert open_files() == before


def test_what_is_out_of_the_ordinary_is_left_to_another_and_costs_no_other_message(
    spool: Spool, root: Path
) -> None:
    orders = root / "queues" / ORDERS
    put(root, "damaged").write_bytes(b"body" + pack_trailer({"x-meta-shop": "south"}))
    put(root, "cut").write_bytes(b"body")
    put(root, "large", b"x" * SMALL_BODY_BYTES)
    (orders / "bare").write_bytes(b"body")
    (orders / "link").symlink_to(put(root, "good"))
    (orders / "folder").mkdir()
    os.mkfifo(orders / "pipe")
    odd = ["gone", "damaged", "cut", "large", "bare", "link", "folder", "pipe"]
    before = open_files()

    *others, good = glances_at(spool, *odd, "good")

    assert others == [None] * len(odd)
    assert good is not None
    assert open_files() == before


def test_a_glance_leaves_the_access_time(spool: Spool, root: Path) -> None:
    path = put(root, "1")
    os.utime(path, ns=(1, 2))

    assert glances_at(spool, "1") != [None]

    assert path.stat().st_atime_ns == 1


@needs_root
def test_a_message_of_another_user_is_not_one(spool: Spool, root: Path) -> None:
    os.chown(put(root, "1"), NOBODY, NOBODY)

    assert glances_at(spool, "1") == [None]


def test_a_queue_that_is_gone_is_not_found(spool: Spool, root: Path) -> None:
    (root / "queues" / ORDERS).rmdir()

    with pytest.raises(FileNotFoundError):
        glances_at(spool, "1")
