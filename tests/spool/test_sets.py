"""Sets: filled open, sealed by one rename, held by the lock of their folder."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from mq.lifecycle import Folder
from mq.spool.message.held import Lost
from mq.spool.sets import hold_set, make_set, members, seal_set
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from tests.support.faults import WatchedFiles
from tests.support.messages import write_message, write_set

OPEN, SEALED = ".orders:0123.open", ".orders:0123"


def test_sealing_replaces_no_set(spool: Spool) -> None:
    write_set(spool.root / "new" / OPEN, "1")
    write_set(spool.root / "new" / SEALED, "2")

    with pytest.raises(FileExistsError):
        seal_set(spool, Folder.NEW, OPEN, SEALED)

    assert members(spool, Folder.NEW, SEALED) == ["orders:2"]


def test_the_lock_of_a_set_stays_with_it_when_it_is_sealed(
    spool: Spool, open_spool: Callable[[WatchedFiles], Spool]
) -> None:
    other = open_spool(WatchedFiles())
    fd = make_set(spool, Folder.NEW, OPEN)
    assert isinstance(fd, int)

    assert hold_set(other, Folder.NEW, OPEN) is Lost.BUSY
    seal_set(spool, Folder.NEW, OPEN, SEALED)
    assert hold_set(other, Folder.NEW, SEALED) is Lost.BUSY

    spool.files.close(fd)
    free = hold_set(other, Folder.NEW, SEALED)
    assert isinstance(free, int)
    other.files.close(free)


def test_a_set_that_a_sweep_saw_before_it_was_locked_is_not_ours(
    spool: Spool, files: WatchedFiles, open_spool: Callable[[WatchedFiles], Spool]
) -> None:
    sweeping = Sweeper(open_spool(WatchedFiles()), lambda *_: None)

    def sweep(*_: object) -> None:
        files.before.clear()
        sweeping.sweep()

    files.before["lock"] = sweep

    assert make_set(spool, Folder.NEW, OPEN) is Lost.BUSY
    assert os.listdir(spool.root / "new") == []


def test_a_name_that_is_no_folder_is_no_set(spool: Spool) -> None:
    write_message(spool.root / "new" / SEALED)

    assert hold_set(spool, Folder.NEW, SEALED) is Lost.FOREIGN
    assert hold_set(spool, Folder.NEW, ".orders:none") is Lost.GONE
