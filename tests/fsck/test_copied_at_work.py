"""fsck: a copy of a root that was at work. A message that went on meanwhile is there once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.spool.message.burial import DEAD_ATTRIBUTE
from mq.spool.spool import Spool
from tests.support.fsck import Fsck, everything, published_later, sealed

HANDOVERS = [".-:9d8c7b6a.open", ".-:9d8c7b6a"]
FURTHER = ["queues/orders/1", "delay/orders:1", "remove/orders:1"]


@pytest.fixture
def fsck(spool: Spool) -> Fsck:
    return Fsck(spool)


def test_what_was_purged_meanwhile_does_not_come_back(root: Path, fsck: Fsck) -> None:
    part = root / "remove" / "orders:.purged" / "1"
    part.mkdir(parents=True)
    sealed(part / "1")
    sealed(root / "queues" / "orders" / "1")
    sealed(part / "orders:2")
    sealed(root / "delay" / "orders:2")
    sealed(root / "queues" / "orders" / "3")

    assert {(each.kind, each.path) for each in fsck.report()} == {
        ("duplicate", "queues/orders/1"), ("duplicate", "delay/orders:2"),
    }  # fmt: skip
    assert len(fsck.mend()) == 2

    assert fsck.report() == []
    assert set(everything(root)) >= {
        "corrupt/orders:1", "corrupt/orders:2", "queues/orders/3",
        "remove/orders:.purged/1/1", "remove/orders:.purged/1/orders:2",
    }  # fmt: skip


@pytest.mark.parametrize("kept", FURTHER)
def test_a_member_of_a_batch_that_was_delivered_meanwhile_is_not_delivered_again(
    root: Path, fsck: Fsck, kept: str
) -> None:
    batch = root / "new" / ".orders:9d8c7b6a"
    batch.mkdir()
    sealed(batch / "orders:1")
    sealed(batch / "orders:2")
    sealed(root / kept)

    mended = {each.path: each.repair for each in fsck.mend()}

    assert mended == {
        "new/.orders:9d8c7b6a/orders:1": "moved to corrupt/orders:1",
        "new/.orders:9d8c7b6a": "delivered 1 messages to queue orders",
    }
    assert fsck.report() == []
    assert set(everything(root)) >= {kept, "corrupt/orders:1", "queues/orders/2"}


def handed_over(root: Path, name: str) -> None:
    """Message 1 is handed over for message 2."""
    batch = root / "new" / name
    batch.mkdir()
    sealed(batch / ".orders:1")
    sealed(batch / "orders:2")


@pytest.mark.parametrize("name", HANDOVERS)
@pytest.mark.parametrize("earlier", FURTHER[:2])
def test_a_message_that_was_handed_over_meanwhile_does_not_come_back(
    root: Path, fsck: Fsck, earlier: str, name: str
) -> None:
    handed_over(root, name)
    sealed(root / earlier)

    mended = {each.path: each.repair for each in fsck.mend()}

    assert mended == {
        earlier: "moved to corrupt/orders:1",
        f"new/{name}": "delivered 1 messages to their queues",
    }
    assert fsck.report() == []
    assert set(everything(root)) >= {"corrupt/orders:1", "remove/orders:1", "queues/orders/2"}


@pytest.mark.parametrize("name", HANDOVERS)
@pytest.mark.parametrize("kept", FURTHER)
def test_what_a_handover_published_meanwhile_is_not_delivered_again(
    root: Path, fsck: Fsck, kept: str, name: str
) -> None:
    handed_over(root, name)
    kept = kept.replace("1", "2")
    sealed(root / kept)

    mended = {each.path: each.repair for each in fsck.mend()}

    assert mended == {
        f"new/{name}/orders:2": "moved to corrupt/orders:2",
        f"new/{name}": "delivered 0 messages to their queues",
    }
    assert fsck.report() == []
    assert set(everything(root)) >= {kept, "remove/orders:1"}


@pytest.mark.parametrize("name", HANDOVERS)
@pytest.mark.parametrize("write", [sealed, published_later], ids=["removed", "published again"])
def test_what_is_removed_already_or_has_its_id_by_then_is_no_second_name(
    root: Path, fsck: Fsck, write: Callable[[Path], Path], name: str
) -> None:
    """What was handed over decides whether the rest is published, so it stays."""
    handed_over(root, name)
    write(root / ("remove/orders:1" if write is sealed else "queues/orders/1"))

    assert [each.path for each in fsck.mend()] == [f"new/{name}"]

    assert fsck.report() == []
    assert "queues/orders/2" in everything(root)


def test_another_message_with_the_id_of_what_was_handed_over_stays(root: Path, fsck: Fsck) -> None:
    handed_over(root, HANDOVERS[0])
    sealed(root / "queues" / "orders" / "1", b"another body")

    assert [each.path for each in fsck.mend()] == [f"new/{HANDOVERS[0]}"]

    assert everything(root)["queues/orders/1"] == b"another body"


def test_a_second_name_of_what_was_handed_over_is_left_to_the_handover(
    root: Path, fsck: Fsck
) -> None:
    handed_over(root, HANDOVERS[0])
    os.link(root / "new" / HANDOVERS[0] / ".orders:1", root / "delay" / "orders:1")

    assert [each.path for each in fsck.mend()] == [f"new/{HANDOVERS[0]}"]

    assert set(everything(root)) >= {"remove/orders:1", "queues/orders/2"}
    assert not (root / "delay" / "orders:1").exists()


@pytest.mark.parametrize("dead", ["orders.dead", "graveyard"])
@pytest.mark.parametrize(
    ("alive", "stays"),
    [("queues/orders/1", False), ("delay/orders:1", True), ("remove/orders:1", True)],
)
def test_a_message_that_died_meanwhile_is_there_once(
    root: Path, fsck: Fsck, dead: str, alive: str, *, stays: bool
) -> None:
    """One that was redriven meanwhile too: what is leased or removed is further on its way."""
    (root / "queues" / dead).mkdir()
    buried = sealed(root / "queues" / dead / "1")
    os.setxattr(buried, DEAD_ATTRIBUTE, b"orders max-receives")
    sealed(root / alive)

    (mended,) = fsck.mend()

    dead_name = f"queues/{dead}/1"
    other, kept = (dead_name, alive) if stays else (alive, dead_name)
    assert (mended.kind, mended.path) == ("duplicate", other)
    assert fsck.report() == []
    assert (root / kept).exists()
    assert not (root / other).exists()


def test_a_dead_letter_is_not_a_later_message_with_its_id(root: Path, fsck: Fsck) -> None:
    (root / "queues" / "orders.dead").mkdir()
    buried = sealed(root / "queues" / "orders.dead" / "1")
    os.setxattr(buried, DEAD_ATTRIBUTE, b"orders max-receives")
    published_later(root / "queues" / "orders" / "1")

    assert fsck.report() == []


@pytest.mark.parametrize(
    "went_on", ["remove/orders:.1f2e/1", "queues/returns/1", "spark/claims/lake/1/0/orders:1"]
)
def test_what_was_deleted_or_moved_or_claimed_meanwhile_may_be_there_twice(
    root: Path, fsck: Fsck, went_on: str
) -> None:
    """A person may have put a deleted queue back, or a message into a second queue."""
    for name in ("queues/orders/1", went_on):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        sealed(root / name)

    assert fsck.report() == []
