"""Lengths and CRC-32s, also of files that are mostly holes."""

from __future__ import annotations

import os
import random
import zlib
from pathlib import Path

import pytest

from mq.config import CHUNK_BYTES
from mq.disk.files import Files
from mq.spool.message.checksum import crc32_with_zeros, measure
from tests.support.faults import WatchedFiles

_TIB = 1 << 40


@pytest.mark.parametrize("count", [0, 1, 2, 3, 31, 255, 256, 4097, 1_000_003])
def test_zeros_are_counted_without_being_read(count: int) -> None:
    for begin in (b"", b"a", b"\0", random.Random(count).randbytes(100)):
        expected = zlib.crc32(begin + bytes(count))

        assert crc32_with_zeros(zlib.crc32(begin), count) == expected


def _with_holes(path: Path, length: int, pieces: dict[int, bytes]) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, length)
    for offset, data in pieces.items():
        os.pwrite(fd, data, offset)
    return fd


PIECES = {
    "only a hole": {},
    "data first": {0: b"begin" * 3000},
    "data last": {3 * CHUNK_BYTES + 10: b"end"},
    "data twice": {70_000: b"one" * 9000, 2 * CHUNK_BYTES - 3: b"across"},
}


@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("most", [None, 0, 1, 70_005, 3 * CHUNK_BYTES + 13, 4 * CHUNK_BYTES])
def test_a_file_with_holes_is_measured_as_if_it_were_read(
    tmp_path: Path, pieces: dict[int, bytes], most: int | None
) -> None:
    path = tmp_path / "file"
    fd = _with_holes(path, 3 * CHUNK_BYTES + 13, pieces)
    whole = path.read_bytes()[:most]

    assert measure(Files(), fd, most) == (len(whole), zlib.crc32(whole))
    os.close(fd)


def test_a_tib_of_holes_takes_no_reading(tmp_path: Path) -> None:
    files = WatchedFiles()
    fd = _with_holes(tmp_path / "file", _TIB, {})

    half = crc32_with_zeros(0, _TIB // 2)
    assert measure(files, fd) == (_TIB, crc32_with_zeros(half, _TIB // 2))
    assert files.calls["read"] <= 1
    os.close(fd)


def test_where_holes_are_not_known_all_of_the_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fd = _with_holes(tmp_path / "file", 3 * CHUNK_BYTES, {9: b"data"})
    expected = measure(Files(), fd)

    def refuse(*_: int) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr("mq.spool.message.checksum.os.lseek", refuse)

    assert measure(Files(), fd) == expected
    os.close(fd)
