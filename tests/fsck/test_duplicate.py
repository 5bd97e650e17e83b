"""fsck: one message under two names. The one further on its way stays, nothing is unlinked."""

from __future__ import annotations

import os
import stat
from itertools import combinations
from pathlib import Path

import pytest

from mq.lifecycle import Folder
from mq.spool.message.held import Held, hold
from mq.spool.spool import Spool
from tests.support.faults import WatchedFiles
from tests.support.fsck import Fsck, everything, published_later, sealed
from tests.support.messages import names_in, write_message

WAY = ["new/orders:1", "queues/orders/1", "delay/orders:1", "remove/orders:1"]
PAIRS = [pair for pair in combinations(WAY, 2) if pair != (WAY[0], WAY[3])]


@pytest.fixture
def fsck(spool: Spool) -> Fsck:
    return Fsck(spool)


@pytest.mark.parametrize(("other", "kept"), PAIRS)
def test_of_two_names_of_one_file_the_later_stays(
    root: Path, fsck: Fsck, other: str, kept: str
) -> None:
    """A crash between link and unlink leaves such names."""
    os.link(sealed(root / other), root / kept)

    fsck.assert_mends("duplicate", other, f"{kept} is the same file", "moved to corrupt/orders:1")

    assert (root / kept).stat().st_ino == (root / "corrupt" / "orders:1").stat().st_ino
    assert not (root / other).exists()


@pytest.mark.parametrize(("other", "kept"), PAIRS)
def test_of_two_copies_the_later_stays(root: Path, fsck: Fsck, other: str, kept: str) -> None:
    """So a removed message does not come back with a restored backup."""
    sealed(root / other)
    sealed(root / kept)

    fsck.assert_mends(
        "duplicate", other, f"{kept} is a file with the same body", "moved to corrupt/orders:1"
    )

    assert {kept, "corrupt/orders:1"} <= set(everything(root))


@pytest.mark.parametrize(("other", "kept"), [pair for pair in PAIRS if pair[1] != WAY[3]])
def test_of_two_messages_with_one_id_both_are_kept_somewhere(
    root: Path, fsck: Fsck, other: str, kept: str
) -> None:
    sealed(root / other, b"one body")
    sealed(root / kept, b"another body")

    fsck.assert_mends(
        "duplicate", other, f"{kept} is a file with another body", "moved to corrupt/orders:1"
    )

    assert everything(root)[kept] == b"another body"
    assert everything(root)["corrupt/orders:1"] == b"one body"


@pytest.mark.parametrize(("other", "kept"), PAIRS[:1])
def test_a_sparse_file_that_nobody_could_read_is_compared_by_its_length(
    root: Path, fsck: Fsck, other: str, kept: str
) -> None:
    sealed(root / other)
    with (root / kept).open("xb") as file:
        file.truncate(1 << 40)

    fsck.assert_mends(
        "duplicate", other, f"{kept} is a file with another body", "moved to corrupt/orders:1"
    )


def test_two_sparse_files_that_nobody_could_read_are_compared(root: Path, fsck: Fsck) -> None:
    for path in (root / "queues/orders/1", root / "delay/orders:1"):
        with path.open("xb") as file:
            file.truncate(1 << 40)

    fsck.assert_mends(
        "duplicate", "queues/orders/1", "delay/orders:1 is a file with the same body",
        "moved to corrupt/orders:1",
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["link", "fifo", "socket"])
def test_what_is_no_file_in_remove_is_no_second_name(
    root: Path, orders: Path, fsck: Fsck, kind: str
) -> None:
    (orders / "id").touch()
    other = root / "remove" / "orders:id"
    if kind == "link":
        other.symlink_to("nowhere")
    elif kind == "fifo":
        os.mkfifo(other)
    else:
        os.mknod(other, stat.S_IFSOCK | 0o600)

    assert fsck.mend() == []
    assert (orders / "id").exists()
    assert os.path.lexists(other)


@pytest.mark.parametrize("other", WAY[:3])
def test_a_message_that_was_never_removed_stays_beside_a_removed_one_of_its_id(
    root: Path, fsck: Fsck, other: str
) -> None:
    sealed(root / other, b"never removed")
    sealed(root / "remove" / "orders:1", b"removed")
    sealed(root / "remove" / "orders:1~2", b"removed before")

    findings = fsck.mend()

    assert findings[0].kind == "duplicate"
    assert findings[0].repair == "remove/orders:1, another message, was renamed to orders:1~3"
    # What is left in `new` was not delivered either.
    assert [each.kind for each in findings[1:]] == ["leftover"] * (other == WAY[0])
    assert fsck.report() == []
    found = everything(root)
    assert found["queues/orders/1" if other == WAY[0] else other] == b"never removed"
    assert found["remove/orders:1~3"] == b"removed"
    assert found["remove/orders:1~2"] == b"removed before"


@pytest.mark.parametrize("kept", ["remove/orders:1", "remove/orders:.purged/1/1"])
@pytest.mark.parametrize("other", WAY[1:3])
def test_a_message_of_another_time_beside_a_removed_one_of_its_id_and_body_is_none(
    root: Path, fsck: Fsck, other: str, kept: str
) -> None:
    """It was moved into the queue, which does not ask what was removed there."""
    (root / kept).parent.mkdir(parents=True, exist_ok=True)
    sealed(root / kept)
    published_later(root / other)

    assert fsck.mend() == []

    assert {other, kept} <= set(everything(root))


def test_a_leftover_that_was_removed_does_not_come_back(root: Path, fsck: Fsck) -> None:
    sealed(root / "new" / "orders:1")
    sealed(root / "remove" / "orders:1")

    assert {each.kind for each in fsck.report()} == {"duplicate", "leftover"}
    (mended,) = fsck.mend()

    assert mended.kind == "duplicate"
    assert fsck.report() == []
    assert {"remove/orders:1", "corrupt/orders:1"} <= set(everything(root))


def test_three_names_of_one_message_become_one(root: Path, fsck: Fsck) -> None:
    for name in WAY:
        sealed(root / name)

    assert [each.repair is not None for each in fsck.mend()] == [True] * 3

    assert fsck.report() == []
    assert [name for name in WAY if (root / name).exists()] == ["remove/orders:1"]
    assert names_in(root / "corrupt") == ["orders:1", "orders:1~2", "orders:1~3"]


def test_a_dead_letter_cut_off_between_link_and_unlink_is_found(root: Path, fsck: Fsck) -> None:
    (root / "queues" / "orders.dead").mkdir()
    os.link(sealed(root / "delay" / "orders:1"), root / "queues" / "orders.dead" / "1")

    fsck.assert_mends(
        "duplicate",
        "queues/orders.dead/1",
        "delay/orders:1 is the same file",
        "moved to corrupt/orders.dead:1",
    )


def test_the_same_id_in_two_queues_is_none(root: Path, fsck: Fsck) -> None:
    (root / "queues" / "orders.dead").mkdir()
    for name in ("queues/orders/1", "queues/orders.dead/1", "delay/orders:2", "delay/returns:1"):
        sealed(root / name)
    published_later(root / "queues" / "orders.dead" / "2")
    (root / "queues" / "returns").mkdir()

    assert fsck.report() == []


def test_a_hard_link_outside_the_root_is_none(root: Path, tmp_path: Path, fsck: Fsck) -> None:
    """A backup with `cp -al` makes such links."""
    os.link(sealed(root / "queues" / "orders" / "1"), tmp_path / "backup")

    assert fsck.report() == []


def test_two_names_of_which_one_goes_away_are_none(root: Path, fsck: Fsck) -> None:
    """A rename without RENAME_NOREPLACE shows both names for a moment."""
    other = sealed(root / "queues" / "orders" / "1")
    os.link(other, root / "remove" / "orders:1")
    fsck.meanwhile = other.unlink

    assert fsck.mend() == []


def test_a_message_that_moves_between_two_listings_is_none(root: Path, fsck: Fsck) -> None:
    """It is seen in both folders, and never was in both. No receiver finds it locked."""
    delayed, ready = sealed(root / "delay" / "orders:1"), root / "queues" / "orders" / "1"
    looked_at = []

    def redeliver() -> None:
        looked_at.append(delayed.exists())
        if len(looked_at) == 2:
            delayed.rename(ready)

    fsck.on_progress = redeliver
    files = WatchedFiles()
    fsck.files = lambda: files

    assert fsck.mend() == []
    assert looked_at[:3] == [True, True, False]
    assert files.calls["lock"] == 0


def test_a_duplicate_that_somebody_holds_is_nobody_elses_business(
    root: Path, spool: Spool, fsck: Fsck
) -> None:
    """An idempotent publish links first and looks for another one then."""
    sealed(root / "new" / "orders:1")
    sealed(root / "delay" / "orders:1")
    publisher = hold(spool.files, spool.fd(Folder.NEW), "orders:1")
    assert isinstance(publisher, Held)

    with publisher:
        assert fsck.mend() == []


def test_copies_without_seals_are_compared_by_their_bodies(root: Path, fsck: Fsck) -> None:
    write_message(root / "queues" / "orders" / "1", b"same")
    write_message(root / "remove" / "orders:1", b"same")

    fsck.assert_mends("duplicate", "queues/orders/1", "the same body", "moved to corrupt/orders:1")
