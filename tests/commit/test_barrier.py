"""What the barrier syncs of a move, and of a new message."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from mq.commit.barrier import SyncBarrier, Unsynced
from mq.config import FEW_UNSYNCED
from mq.lifecycle import Folder
from mq.spool.folders import Spool
from tests.support.faults import WatchedFiles

MOVED = Unsynced((), (Folder.REMOVE,), implied=(Folder.DELAY,))


@pytest.fixture
def barrier(spool: Spool) -> Iterator[SyncBarrier]:
    with closing(SyncBarrier(spool)) as made:
        yield made


@pytest.fixture
def synced(files: WatchedFiles, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the folders that are synced, in turn; `.` for everything."""
    names: list[str] = []
    monkeypatch.setattr(files, "sync", lambda fd: names.append(_name_of(fd)))
    monkeypatch.setattr(files, "sync_file_system", lambda fd: names.append("."))
    return names


@pytest.fixture
def new_file(spool: Spool) -> Iterator[int]:
    fd = os.open(spool.root / Folder.NEW / "message", os.O_CREAT | os.O_RDWR)
    yield fd
    os.close(fd)


def _name_of(fd: int) -> str:
    return os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))


def test_with_one_log_the_folder_that_a_name_came_to_is_enough(
    spool: Spool, barrier: SyncBarrier, synced: list[str]
) -> None:
    spool.has_one_log = True

    barrier.make_durable([MOVED] * 100)

    assert synced == ["remove"]


def test_with_one_log_the_file_brings_its_name(
    spool: Spool, barrier: SyncBarrier, synced: list[str], new_file: int
) -> None:
    spool.has_one_log = True

    barrier.make_durable([Unsynced((new_file,), (), implied=(Folder.NEW,))])

    assert synced == ["message"]


@pytest.mark.parametrize("has_one_log", [True, False])
def test_several_files_are_synced_in_one_go(
    spool: Spool, barrier: SyncBarrier, synced: list[str], new_file: int, has_one_log: bool
) -> None:
    spool.has_one_log = has_one_log

    barrier.make_durable([Unsynced((new_file,), (), implied=(Folder.NEW,))] * 2)

    assert synced == ["."]


@pytest.mark.parametrize("abilities", [(False, True), (True, False), (False, False)])
def test_elsewhere_the_folder_of_a_new_file_is_synced_too(
    spool: Spool,
    barrier: SyncBarrier,
    synced: list[str],
    new_file: int,
    abilities: tuple[bool, bool],
) -> None:
    spool.has_one_log, spool.files.has_unnamed_files = abilities

    barrier.make_durable([Unsynced((new_file,), (), implied=(Folder.NEW,))])

    assert sorted(synced) == ["message", "new"]


def test_elsewhere_the_folder_that_it_came_from_is_synced_too(
    spool: Spool, barrier: SyncBarrier, synced: list[str]
) -> None:
    spool.has_one_log = False

    barrier.make_durable([MOVED])

    assert sorted(synced) == ["delay", "remove"]


def test_a_move_by_link_and_unlink_ends_in_the_folder_that_it_came_from(
    spool: Spool, barrier: SyncBarrier, synced: list[str]
) -> None:
    spool.has_one_log = True
    spool.files.renames_without_replacing = False

    barrier.make_durable([MOVED])

    assert sorted(synced) == ["delay", "remove"]


@pytest.mark.parametrize("has_one_log", [True, False])
def test_what_is_implied_counts_towards_what_is_synced_only_where_it_is_synced(
    spool: Spool, barrier: SyncBarrier, synced: list[str], has_one_log: bool
) -> None:
    spool.has_one_log = has_one_log
    implied = tuple(f"queues/q{number}" for number in range(FEW_UNSYNCED))

    barrier.make_durable([Unsynced((), (Folder.DELAY,), implied=implied)])

    assert synced == (["delay"] if has_one_log else ["."])
