"""The length and the CRC-32 of a file.

Holes are not read, because a sparse file may be longer than any disk.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Iterator

from mq.config import CHUNK_BYTES
from mq.disk.files import Files

_BLOCK_BYTES = 512
"""The unit of st_blocks, on every file system."""

_POLYNOMIAL = 0xEDB88320
_ALL_ONES = (1 << 32) - 1

_Matrix = tuple[int, ...]
"""What each of the 32 bits of the register becomes."""


def measure(files: Files, fd: int, most: int | None = None) -> tuple[int, int]:
    """Return the length in bytes and the CRC-32 of a whole file, or of its first `most` bytes."""
    status = os.fstat(fd)
    if status.st_size > CHUNK_BYTES and status.st_blocks * _BLOCK_BYTES < status.st_size:
        end = status.st_size if most is None else min(most, status.st_size)
        return _measure_sparse(files, fd, end)
    length = crc32 = 0
    while chunk := files.read(
        fd, CHUNK_BYTES if most is None else min(CHUNK_BYTES, most - length), length
    ):
        crc32 = zlib.crc32(chunk, crc32)
        length += len(chunk)
    return length, crc32


def _measure_sparse(files: Files, fd: int, end: int) -> tuple[int, int]:
    length = crc32 = 0
    while length < end:
        data = min(_next_data(fd, length, end), end)
        crc32 = crc32_with_zeros(crc32, data - length)
        chunk = files.read(fd, min(CHUNK_BYTES, end - data), data)
        if not chunk and data < end:
            break  # The file was cut meanwhile.
        crc32 = zlib.crc32(chunk, crc32)
        length = data + len(chunk)
    return length, crc32


def _next_data(fd: int, offset: int, end: int) -> int:
    """Return where the next data of a file begins, at `offset` or after it, or `end` if only a hole
    follows. A file system that cannot tell calls everything data."""
    try:
        return os.lseek(fd, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return end
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return offset
        raise


def crc32_with_zeros(crc32: int, count: int) -> int:
    """Return the CRC-32 of the data that has `crc32`, followed by `count` zeros."""
    register = crc32 ^ _ALL_ONES
    for bit, matrix in enumerate(_doublings(count.bit_length())):
        if count >> bit & 1:
            register = _times(matrix, register)
    return register ^ _ALL_ONES


def _doublings(count: int) -> Iterator[_Matrix]:
    """Yield what 1, 2, 4, 8... bytes of zeros do to the register, as the matrix that does it: the
    first one three doublings of that of a single bit, each other one the square of the last."""
    matrix: _Matrix = (_POLYNOMIAL, *(1 << bit for bit in range(31)))
    for doubling in range(3 + count):
        if doubling >= 3:
            yield matrix
        matrix = tuple(_times(matrix, column) for column in matrix)


def _times(matrix: _Matrix, register: int) -> int:
    found = 0
    for column in matrix:
        if register & 1:
            found ^= column
        register >>= 1
    return found
