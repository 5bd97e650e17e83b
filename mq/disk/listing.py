"""The names in a folder: one after the other, or as of one moment."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator

from mq.disk.files import Files
from mq.disk.libc import load_libc

_DIRENT = struct.Struct("=16xHB")
"""struct linux_dirent64 up to the name, which ends with a NUL: its length and the file's type."""

_MOST_DIRENT_BYTES = _DIRENT.size + 256 + 8
_FIRST_LISTING_BYTES = 64 * 1024


def list_names(files: Files, folder_fd: int, name: str = ".") -> list[str]:
    """Return the names in an open folder, or in a folder inside it.

    The folder is opened again, because two threads that list one descriptor share its position.
    """
    fd = files.open_folder(folder_fd, name)
    try:
        return os.listdir(fd)
    finally:
        files.close(fd)


def list_at_once(fd: int) -> Iterator[tuple[bytes, int]]:
    """Yield the entries of an open folder as of one moment: each name, and its type, a DT_ of
    readdir(3).

    readdir(3) lists piece by piece, and can miss a file that is renamed between two pieces. The
    kernel holds the folder's lock over each getdents64(2), so no rename comes in between; if the
    buffer was too small for all entries, all are listed again. A file system that returns them in
    pieces all the same (NFS, FUSE) is listed piece by piece.
    """
    libc, size = load_libc(), _FIRST_LISTING_BYTES
    while True:
        os.lseek(fd, 0, os.SEEK_SET)
        pieces = [_read_entries(libc, fd, size)]
        if len(pieces[0]) + _MOST_DIRENT_BYTES <= size:
            break
        size *= 4
    while pieces[-1]:
        pieces.append(_read_entries(libc, fd, size))
    for piece in pieces:
        yield from _entries_in(piece)


def _read_entries(libc: ctypes.CDLL, fd: int, size: int) -> bytes:
    buffer = ctypes.create_string_buffer(size)
    length = libc.getdents64(fd, buffer, ctypes.c_size_t(size))
    if length < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "getdents64")
    return ctypes.string_at(buffer, length)


def _entries_in(piece: bytes) -> Iterator[tuple[bytes, int]]:
    start = 0
    while start < len(piece):
        length, kind = _DIRENT.unpack_from(piece, start)
        name = start + _DIRENT.size
        yield piece[name : piece.index(0, name)], kind
        start += length
