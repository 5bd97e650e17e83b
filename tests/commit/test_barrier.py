"""What the barrier syncs of a move."""

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

MOVED = Unsynced((), (Folder.REMOVE,), sources=(Folder.DELAY,))


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


def _name_of(fd: int) -> str:
    return os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))


def test_where_changes_keep_their_order_the_folder_that_a_name_came_to_is_enough(
    spool: Spool, barrier: SyncBarrier, synced: list[str]
) -> None:
    spool.keeps_order = True

    barrier.make_durable([MOVED] * 100)

    assert synced == ["remove"]


def test_elsewhere_the_folder_that_it_came_from_is_synced_too(
    spool: Spool, barrier: SyncBarrier, synced: list[str]
) -> None:
    spool.keeps_order = False

    barrier.make_durable([MOVED])

    assert sorted(synced) == ["delay", "remove"]


def test_a_move_by_link_and_unlink_ends_in_the_folder_that_it_came_from(
    spool: Spool, barrier: SyncBarrier, synced: list[str]
) -> None:
    spool.keeps_order = True
    spool.files.renames_without_replacing = False

    barrier.make_durable([MOVED])

    assert sorted(synced) == ["delay", "remove"]


@pytest.mark.parametrize("keeps_order", [True, False])
def test_sources_count_towards_what_is_synced_one_by_one_only_where_they_are_synced(
    spool: Spool, barrier: SyncBarrier, synced: list[str], keeps_order: bool
) -> None:
    spool.keeps_order = keeps_order
    sources = tuple(f"queues/q{number}" for number in range(FEW_UNSYNCED))

    barrier.make_durable([Unsynced((), (Folder.DELAY,), sources=sources)])

    assert synced == (["delay"] if keeps_order else ["."])
