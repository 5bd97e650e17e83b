"""Folders in `remove`: how one comes there, and how its name is told from that of a message."""

from __future__ import annotations

import os

import pytest

from mq.lifecycle import Folder
from mq.spool.queue.purged import PURGED_SUFFIX
from mq.spool.queue.queues import DELETING_SUFFIX
from mq.spool.removed_folders import is_removed_folder, leave_to_reaper
from mq.spool.spark.letting_go import name_in_remove
from mq.spool.spool import Spool
from tests.support.faults import CHANGES, WatchedFiles
from tests.support.messages import write_set

OPEN = ".orders:0123.open"


def test_a_folder_is_left_to_the_reaper_by_one_rename(spool: Spool, files: WatchedFiles) -> None:
    write_set(spool.root / "new" / OPEN, "1", "2")
    before = set(os.listdir(spool.root / "remove"))
    files.calls.clear()

    assert leave_to_reaper(spool, Folder.NEW, OPEN, "orders")

    assert sum(files.calls[name] for name in CHANGES - {"link", "unlink", "replace"}) == 1
    (name,) = set(os.listdir(spool.root / "remove")) - before
    assert is_removed_folder(name)
    assert not leave_to_reaper(spool, Folder.NEW, OPEN, "orders")


@pytest.mark.parametrize(
    "name", ["orders" + DELETING_SUFFIX, "orders" + PURGED_SUFFIX, name_in_remove("lake", 7)]
)
def test_every_folder_that_mq_puts_into_remove_has_a_name_of_its_kind(name: str) -> None:
    assert is_removed_folder(name)


@pytest.mark.parametrize("name", ["orders:01a1fcfc", "orders.dead:01a1fcfc~2", "orders", ".probe"])
def test_a_message_has_no_such_name(name: str) -> None:
    assert not is_removed_folder(name)
