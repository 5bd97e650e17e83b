"""How a folder is synced on each file system, and what a call costs beside the call."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mq.disk.files import Files
from mq.disk.libc import birth_ns, load_libc, look_up
from mq.disk.listing import list_at_once
from mq.spool.network_files import NetworkFiles


class CountedLibc:
    """The C library, and how often each of its functions was called."""

    def __init__(self, libc: Any) -> None:
        self._libc = libc
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._libc, name)

        def counted(*arguments: Any) -> Any:
            self.calls[name] += 1
            return function(*arguments)

        return counted


def test_folders_of_btrfs_alone_are_synced_with_all_of_it_and_each_device_is_asked_once(
    loop_mount: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files()
    libc = CountedLibc(files._libc)
    monkeypatch.setattr(files, "_libc", libc)
    folders = [
        files.open_folder(None, str(path))
        for path in (loop_mount("btrfs", 128), loop_mount("ext4", 16), tmp_path)
    ]
    try:
        for _ in range(3):
            for fd in folders:
                files.sync(fd)
    finally:
        for fd in folders:
            os.close(fd)

    assert libc.calls == {"fstatfs": 3, "syncfs": 3}


def test_a_network_file_system_is_not_asked_whether_it_is_btrfs(
    loop_mount: Callable[..., Path],
) -> None:
    """A test of one may run on btrfs. There a sync of everything is one of each folder."""
    path = loop_mount("btrfs", 128)
    files = NetworkFiles(path)
    fd = files.open_folder(None, str(path))

    files.sync(fd)
    files.sync_file_system(fd)

    files.close(fd)


def test_a_device_that_cannot_say_what_it_is_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files()
    libc = CountedLibc(files._libc)
    monkeypatch.setattr(files, "_libc", libc)
    fd = files.open_folder(None, str(tmp_path))
    try:
        with monkeypatch.context() as failing:
            failing.setattr(libc, "fstatfs", lambda *_: -1, raising=False)
            files.sync(fd)
        files.sync(fd)
        files.sync(fd)
    finally:
        os.close(fd)

    assert libc.calls == {"fstatfs": 1}


def test_the_library_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file's birth is asked for each message that may have expired."""
    fd = os.open(tmp_path, os.O_RDONLY)
    births, listings = [birth_ns(str(tmp_path))], [[*list_at_once(fd)]]
    loads: list[object] = []
    monkeypatch.setattr("ctypes.CDLL", lambda *given, **named: loads.append(given))
    try:
        births.append(birth_ns(str(tmp_path)))
        listings.append([*list_at_once(fd)])
    finally:
        os.close(fd)

    assert births[0] == births[1]
    assert listings[0] == listings[1]
    assert loads == []


def test_a_look_up_says_whether_a_name_is_there_and_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    fd = os.open(tmp_path, os.O_RDONLY)
    outcomes: dict[str, set[int | None]] = {}
    for name in ("file", "folder", "link", "none"):
        for at, path in ((fd, name), (None, str(tmp_path / name))):
            with pytest.raises(OSError, match=name) as raised:
                look_up(load_libc(), at, path)
            outcomes.setdefault(name, set()).add(raised.value.errno)
    os.close(fd)

    there = {errno.EEXIST}
    assert outcomes == {"file": there, "folder": there, "link": there, "none": {errno.ENOENT}}
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "link"]
