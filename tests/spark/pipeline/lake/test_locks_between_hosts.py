"""A lake on a network file system: what its archive locks on one host is locked on the others."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from mq.disk.files import Files
from mq.errors import CommandFailed
from pyspark_mq.pipeline.lake import lake as lake_module
from pyspark_mq.pipeline.lake.lake import Lake
from tests.spark.pipeline.lakes import numbers_in, rows_of


@pytest.fixture(autouse=True)
def hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lock of a folder is taken on a host of its own, where it is free (NFS, FUSE)."""
    monkeypatch.setattr("pyspark_mq.pipeline.lake.folder.file_system_kind", lambda _: "nfs4")
    monkeypatch.setattr(Files, "lock", lambda *_: True)
    monkeypatch.setattr(Files, "lock_shared", lambda *_: True)


@pytest.mark.usefixtures("no_patience")
def test_an_archive_of_another_host_removes_nothing_of_what_is_being_written(
    spark: Any, make_lake: Callable[[], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake()
    decide = lake.placings.decide

    def decide_late(job: str, places: dict[str, str], replaced: list[str]) -> None:
        second = make_lake().held()
        with pytest.raises(CommandFailed, match="another archive fills it now"):
            second.__enter__()
        decide(job, places, replaced)

    monkeypatch.setattr(lake.placings, "decide", decide_late)
    with lake.held():
        lake.add(rows_of(spark, 1, 2), 0)

    assert numbers_in(spark, make_lake()) == [1, 2]
    with make_lake().held():
        pass


def test_what_a_replay_of_another_host_reads_is_not_merged(
    spark: Any, make_lake: Callable[[], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_module, "MOST_SMALL_FILES", 2)
    lake = make_lake()
    for batch in range(3):
        lake.add(rows_of(spark, batch), batch)

    with make_lake().kept(), make_lake().kept():
        assert lake.compact() == 0

    assert lake.compact() == 3
    assert numbers_in(spark, make_lake()) == [0, 1, 2]


def test_a_lake_that_is_mounted_read_only_is_read(
    spark: Any, make_lake: Callable[[], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_lake().add(rows_of(spark, 1), 0)

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Files, "create", refuse)
    monkeypatch.setattr(Files, "open_to_lock", refuse)

    with make_lake().kept():
        assert numbers_in(spark, make_lake()) == [1]
