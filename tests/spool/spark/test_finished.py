"""What Spark is done with: found by name, as long as the disk has it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mq.disk.files import Files
from mq.spool.root import open_root
from mq.spool.spark.finished import DoneBatches
from mq.spool.spool import Spool


@pytest.fixture
def spool(root: Path) -> Iterator[Spool]:
    opened = open_root(root, 0o700, Files())[0]
    yield opened
    opened.close()


def set_floor(root: Path, floor: int, group: str = "lake") -> None:
    folder = root / "spark/claims" / group
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("floor.*"):
        old.unlink()
    (folder / f"floor.{floor}").touch()


def put(folder: Path, *names: str, part: int = 0) -> None:
    (folder / f"{part}").mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{part}" / name).touch()


def found(done: DoneBatches, root: Path, name: str) -> list[str]:
    return [path for path in done.paths(name) if (root / path).exists()]


def test_a_message_is_found_in_the_part_it_lies_in(root: Path, spool: Spool) -> None:
    put(root / "remove/lake:.1", "orders:one")
    put(root / "remove/lake:.1", "orders:two", part=7)
    set_floor(root, 1)
    done = DoneBatches(spool)

    assert found(done, root, "orders:two") == ["remove/lake:.1/7/orders:two"]
    assert found(done, root, "orders:one") == ["remove/lake:.1/0/orders:one"]
    assert list(done.paths("orders:three")) == []


def test_the_number_of_batches_that_are_reaped_costs_nothing(root: Path, spool: Spool) -> None:
    last = 10**18
    put(root / f"remove/lake:.{last}", "orders:one")
    set_floor(root, last)

    assert found(DoneBatches(spool), root, "orders:one") == [f"remove/lake:.{last}/0/orders:one"]


def test_batches_that_are_done_later_are_found_too(root: Path, spool: Spool) -> None:
    set_floor(root, 0)
    done = DoneBatches(spool)
    for number in range(1, 4):
        assert list(done.paths(f"orders:{number}")) == []
        put(root / f"remove/lake:.{number}", f"orders:{number}")
        set_floor(root, number)

        assert found(done, root, f"orders:{number}") == [f"remove/lake:.{number}/0/orders:{number}"]


def test_a_batch_that_is_archived_beside_one_of_an_earlier_group_is_found(
    root: Path, spool: Spool
) -> None:
    archive = root / "spark/archive/lake"
    for name in ("1", "1~2", "1~3"):
        put(archive / name, f"orders:{name[-1]}")
    set_floor(root, 1)
    done = DoneBatches(spool)

    for name in ("1", "1~2", "1~3"):
        message = f"orders:{name[-1]}"
        assert found(done, root, message) == [f"spark/archive/lake/{name}/0/{message}"]


def test_a_batch_that_is_still_on_its_way_is_found_when_it_has_come(
    root: Path, spool: Spool
) -> None:
    """Its driver died between floor and removal; the next one goes on."""
    set_floor(root, 1)
    put(root / "spark/claims/lake/1", "orders:one")
    done = DoneBatches(spool)
    assert list(done.paths("orders:one")) == []

    (root / "spark/claims/lake/1").rename(root / "remove/lake:.1")

    assert found(done, root, "orders:one") == ["remove/lake:.1/0/orders:one"]


def test_a_batch_whose_sync_failed_is_found_once_a_person_has_let_it_go(
    root: Path, spool: Spool
) -> None:
    put(root / "spark/claims/lake/1.unsynced", "orders:one")
    set_floor(root, 1)
    done = DoneBatches(spool)
    assert list(done.paths("orders:one")) == []

    (root / "spark/claims/lake/1.unsynced").rename(root / "remove/lake:.1")

    assert found(done, root, "orders:one") == ["remove/lake:.1/0/orders:one"]


@pytest.mark.parametrize(
    ("call", "path"),
    [
        ("lstat", "spark/claims/lake/1"),
        ("scandir", "remove/lake:.1"),
        ("listdir", "remove/lake:.1/0"),
    ],
)
def test_a_batch_is_not_forgotten_because_the_disk_failed_a_look(
    root: Path, spool: Spool, monkeypatch: pytest.MonkeyPatch, call: str, path: str
) -> None:
    put(root / "remove/lake:.1", "orders:one")
    set_floor(root, 1)
    done, real = DoneBatches(spool), getattr(os, call)

    def fail(name: str) -> Any:
        if name == f"{root}/{path}":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(name)

    with monkeypatch.context() as failing:
        failing.setattr(os, call, fail)
        with pytest.raises(OSError, match="Input/output error"):
            list(done.paths("orders:one"))

    assert found(done, root, "orders:one") == ["remove/lake:.1/0/orders:one"]


def test_the_archive_is_looked_through_behind_batches_that_are_gone(
    root: Path, spool: Spool
) -> None:
    set_floor(root, 9)
    put(root / "spark/archive/lake/3", "orders:one")

    assert found(DoneBatches(spool), root, "orders:one") == ["spark/archive/lake/3/0/orders:one"]


def test_a_group_that_is_made_anew_counts_anew(root: Path, spool: Spool) -> None:
    put(root / "remove/lake:.5", "orders:one")
    set_floor(root, 5)
    done = DoneBatches(spool)
    assert found(done, root, "orders:one")
    shutil.rmtree(root / "spark/claims/lake")
    put(root / "remove/lake:.1", "orders:two")
    set_floor(root, 1)

    assert found(done, root, "orders:two") == ["remove/lake:.1/0/orders:two"]


def test_the_newest_messages_of_all_groups_are_known(root: Path, spool: Spool) -> None:
    for number in range(1, 9):
        for group in ("lake", "pond"):
            put(root / f"remove/{group}:.{number}", f"orders:{group}-{number}")
            set_floor(root, number, group)

    done = DoneBatches(spool, most=4)
    known = [
        f"{group}-{number}"
        for number in range(1, 9)
        for group in ("lake", "pond")
        if found(done, root, f"orders:{group}-{number}")
    ]

    assert len(known) == 4


def test_what_is_reaped_is_forgotten(root: Path, spool: Spool) -> None:
    done = DoneBatches(spool)
    for number in range(1, 50):
        put(root / f"remove/lake:.{number}", f"orders:{number}")
        set_floor(root, number)
        assert found(done, root, f"orders:{number}")
        shutil.rmtree(root / f"remove/lake:.{number}")

    assert len(done._where) < 3


@pytest.mark.parametrize("name", ["floor.²", "floor.x", "floor.", "floor.01"])
def test_a_floor_that_no_driver_set_is_none(root: Path, spool: Spool, name: str) -> None:
    put(root / "remove/lake:.1", "orders:one")
    set_floor(root, 1)
    (root / "spark/claims/lake/floor.1").rename(root / "spark/claims/lake" / name)

    assert list(DoneBatches(spool).paths("orders:one")) == []
