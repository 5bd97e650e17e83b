"""The names in a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.disk.listing import list_at_once, list_names
from tests.support.descriptors import count_open

_DT_DIR, _DT_REG = 4, 8
_MORE_THAN_ONE_BUFFER = 3000


def test_a_folder_is_listed_or_one_inside_it(tmp_path: Path, folder: int) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "file").touch()

    assert list_names(Files(), folder) == ["inside"]
    assert list_names(Files(), folder, "inside") == ["file"]


def test_a_listing_that_fails_leaves_nothing_open(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.listdir", fail)

    with pytest.raises(OSError, match="no names"):
        list_names(Files(), folder)

    monkeypatch.undo()
    assert count_open(tmp_path) == 1


def fail(_: int) -> None:
    raise OSError("no names")


def test_what_is_more_than_a_buffer_is_listed_at_once_with_its_types(
    tmp_path: Path, folder: int
) -> None:
    names = [f"{number:0100}".encode() for number in range(_MORE_THAN_ONE_BUFFER)]
    for name in names:
        (tmp_path / os.fsdecode(name)).touch()
    (tmp_path / "inside").mkdir()

    types = dict(list_at_once(folder))

    assert {name: types[name] for name in names} == dict.fromkeys(names, _DT_REG)
    assert types.keys() - set(names) == {b".", b"..", b"inside"}
    assert types[b"inside"] == _DT_DIR
