"""A lake on a disk that fails: what could not be written does not count."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from mq.disk.files import Files
from pyspark_mq.pipeline.lake.lake import Lake
from tests.spark.pipeline.lakes import numbers_in, rows_of


def fail_and_tell_another(patch: pytest.MonkeyPatch) -> None:
    """Let the disk fail now, and another program be told by its sync. As the kernel does, each
    descriptor that is open by now reports that once, and later ones do not (syncfs(2))."""
    open_folder, sync = Files.open_folder, Files.sync_file_system
    know_nothing = set[int]()

    def open_one(files: Files, folder_fd: int | None, name: str) -> int:
        fd = open_folder(files, folder_fd, name)
        know_nothing.add(fd)
        return fd

    def sync_one(files: Files, fd: int) -> None:
        if fd not in know_nothing:
            know_nothing.add(fd)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(files, fd)

    patch.setattr(Files, "open_folder", open_one)
    patch.setattr(Files, "sync_file_system", sync_one)


def test_rows_that_the_disk_lost_do_not_count_though_another_program_was_told(
    spark: Any, make_lake: Callable[[], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = rows_of(spark, 1)
    lake = make_lake()
    with lake.held(), monkeypatch.context() as patch:
        fail_and_tell_another(patch)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            lake.add(frame, 0)

    assert lake.placings.jobs() == []
    after = make_lake()
    with after.held():
        after.add(frame, 0)
    assert numbers_in(spark, after) == [1]
