"""fsck: trailers, and the format that messages with properties need."""

from __future__ import annotations

from pathlib import Path

import pytest

from mq.spool.spool import Spool
from tests.support.fsck import Fsck
from tests.support.messages import names_in, sealed_with, write_message

PROPERTIES = {"x-meta-shop": "north", "ce-id": "1"}


@pytest.fixture
def fsck(spool: Spool) -> Fsck:
    return Fsck(spool)


def put(path: Path, body: bytes = b"body") -> Path:
    seal, data = sealed_with(body, PROPERTIES)
    return write_message(path, data, seal=seal)


def test_whole_messages_with_properties_are_no_findings(
    spool: Spool, root: Path, orders: Path, fsck: Fsck
) -> None:
    spool.use_long_seals()
    put(orders / "1")
    put(root / "delay" / "orders:2", b"x" * 200_000)
    put(root / "remove" / "orders:3")

    assert fsck.report() == fsck.mend() == []


@pytest.mark.parametrize("size", [4, 200_000])
def test_a_damaged_trailer_is_set_aside(
    spool: Spool, root: Path, orders: Path, fsck: Fsck, size: int
) -> None:
    spool.use_long_seals()
    torn, edited, cut = (put(orders / name, b"x" * size) for name in ("torn", "edited", "cut"))
    torn.write_bytes(torn.read_bytes()[:size] + bytes(len(torn.read_bytes()) - size))
    edited.write_bytes(edited.read_bytes().replace(b"north", b"south"))
    cut.write_bytes(cut.read_bytes()[:size])

    found = fsck.mend()

    assert sorted(each.path for each in found) == [
        "queues/orders/cut",
        "queues/orders/edited",
        "queues/orders/torn",
    ]
    details = {each.path: each.detail for each in found}
    assert "body or properties" in details["queues/orders/edited"]
    assert f"{size} bytes where its seal says" in details["queues/orders/cut"]
    assert len(names_in(root / "corrupt")) == 3


def test_a_message_that_needs_a_later_format_raises_it(
    root: Path, orders: Path, fsck: Fsck
) -> None:
    put(orders / "1")
    put(orders / "2")

    (found,) = fsck.report()
    (mended,) = fsck.mend()

    assert (found.path, found.kind) == ("format", "format")
    assert "'mq 2'" in found.detail
    assert mended.repair == "written as 'mq 2'"
    assert (root / "format").read_text() == "mq 2\n"
    assert fsck.report() == []
