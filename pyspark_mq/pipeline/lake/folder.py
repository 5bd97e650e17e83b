"""The folder of a lake, on any file system that Spark reaches, by Hadoop's API."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

from mq.disk.byte_locks import lock_byte, offset_of, share_byte
from mq.disk.files import Files
from mq.spool.file_system import file_system_kind, is_of_network
from pyspark_mq.pipeline.running.causes import JobRefused

LOCK_FILE = "_lock"
"""Its bytes are locks that reach other hosts, on a network file system."""

_CHECKSUM = "ChecksumException"
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)

_POLL_SECONDS = 0.05


class LakeFolder:
    """The folder. Names are relative to the lake. Methods raise what Java raises."""

    def __init__(self, spark: Any, path: str) -> None:
        """Make nothing. Raises JobRefused for a path that Spark takes for a pattern."""
        if any(letter in path for letter in "*?[]{}"):
            raise JobRefused(f"lake {path}: Spark takes *, ?, [, ], {{ and }} in a path for a "
                             "pattern; choose a path without them")  # fmt: skip
        jvm = spark._jvm
        self._jvm = jvm
        self._path_of = jvm.org.apache.hadoop.fs.Path
        top = self._path_of(path)
        self._fs = top.getFileSystem(spark._jsc.hadoopConfiguration())
        self._top = self._fs.makeQualified(top)
        self.url = self._top.toString()
        uri = self._top.toUri()
        is_local = uri.getScheme() in (None, "file")
        self._local_path = os.path.realpath(uri.getPath()) if is_local else None
        self._listening_fd: int | None = None

    def full(self, name: str) -> str:
        return f"{self.url}/{name}"

    def _path(self, name: str) -> Any:
        return self._path_of(self.full(name))

    def exists(self, name: str) -> bool:
        return bool(self._fs.exists(self._path(name)))

    def is_folder(self, name: str) -> bool:
        return bool(self._fs.isDirectory(self._path(name)))

    def make(self, name: str) -> None:
        """Make a folder, and those above it, where they are missing. Raises OSError."""
        if not self._fs.mkdirs(self._path(name)):
            raise OSError(f"{self.full(name)} could not be made")

    def names(self, name: str) -> list[str]:
        """Return the names directly below a folder, and none if it does not exist."""
        if not self.exists(name):
            return []
        return sorted(each.getPath().getName() for each in self._fs.listStatus(self._path(name)))

    def files(self, name: str) -> dict[str, int]:
        """Return every file below a folder, by its name from there on, with its size in bytes."""
        if not self.exists(name):
            return {}
        top = self._path(name).toUri().getPath()
        found = {}
        listing = self._fs.listFiles(self._path(name), True)
        while listing.hasNext():
            status = listing.next()
            path = status.getPath().toUri().getPath()
            found[path[len(top) :].lstrip("/")] = int(status.getLen())
        return found

    def move(self, source: str, target: str) -> None:
        """Rename a file and make the folder that it goes to, unless another process, or an earlier
        one, has moved it."""
        if not self.exists(source):
            return
        self.make(target.rpartition("/")[0])
        try:
            if self._fs.rename(self._path(source), self._path(target)):
                return
        except Py4JJavaError:
            if self.exists(source):
                raise
        if self.exists(source):
            raise OSError(f"{self.full(source)} was not renamed to {self.full(target)}")

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it. Raises OSError if it is still there:
        Hadoop only answers no."""
        if not self._fs.delete(self._path(name), True) and self.exists(name):
            raise OSError(f"{self.full(name)} was not removed")

    def read(self, name: str) -> str:
        """Return a file's text. Raises ValueError if its checksum, which Hadoop keeps beside it,
        says that it is damaged."""
        stream = self._fs.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        except Py4JJavaError as error:
            if _CHECKSUM not in str(error.java_exception):
                raise
            raise ValueError(f"{self.full(name)} fails its checksum") from None
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a file, whole or not at all. It is durable where `sync` makes it so."""
        draft = f"{name}.draft"
        stream = self._fs.create(self._path(draft), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self.sync()
        self.move(draft, name)
        self.sync()

    def sync(self) -> None:
        """Bring everything to stable media, on a file system of this machine. Elsewhere a file is
        durable when it is closed, as its service promises."""
        if self._local_path is None:
            return
        files = Files()
        if self._listening_fd is not None:
            return files.sync_file_system(self._listening_fd)
        fd = files.open_folder(None, self._local_path)
        try:
            files.sync_file_system(fd)
        finally:
            files.close(fd)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Let `sync` raise each error of the disk since this block began. Otherwise it does not
        learn of one that the sync of another program has reported before (syncfs(2))."""
        if self._local_path is None:
            yield
            return
        files = Files()
        self._listening_fd = files.open_folder(None, self._local_path)
        try:
            yield
        finally:
            fd, self._listening_fd = self._listening_fd, None
            files.close(fd)

    def is_writable(self) -> bool:
        """Whether this user may write there, as far as that can be told before it is tried."""
        return self._local_path is None or os.access(self._local_path, os.W_OK | os.X_OK)

    @contextmanager
    def locked(self, wait_seconds: float = 0.0, name: str = "") -> Iterator[bool]:
        """Hold the lock of the folder, or of one in it, which must exist. Yields whether it is
        held: another process may have it for longer than that. It ends with this process. Other
        file systems have no locks: there it is always held, and people must run one archive at a
        time."""
        with self._held(name, Files().lock, lock_byte, wait_seconds) as is_held:
            yield is_held

    @contextmanager
    def shared(self, wait_seconds: float, name: str) -> Iterator[bool]:
        """Share the lock of a folder in this one, as far as it exists, with others that do."""
        if not self.exists(name):
            yield True
            return
        with self._held(name, Files().lock_shared, share_byte, wait_seconds) as is_held:
            yield is_held

    @contextmanager
    def _held(
        self,
        name: str,
        take: Callable[[int], bool],
        take_byte: Callable[[int, int], bool],
        wait_seconds: float,
    ) -> Iterator[bool]:
        if self._local_path is None:
            yield True
            return
        files, deadline = Files(), time.monotonic() + wait_seconds
        with ExitStack() as stack:
            fd = files.open_folder(None, os.path.join(self._local_path, name))
            stack.callback(files.close, fd)
            byte_fd = _open_lock_file(files, self._local_path)
            if byte_fd is not None:
                stack.callback(files.close, byte_fd)

            def take_all() -> bool:
                return take(fd) and (byte_fd is None or take_byte(byte_fd, offset_of(name)))

            while not (is_held := take_all()) and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
            yield is_held


def _open_lock_file(files: Files, folder: str) -> int | None:
    """Open the file whose bytes are locks for other hosts: the lock of a folder stays on this one.
    Returns None on a file system of this machine, and for a lake that this user may only read."""
    if not is_of_network(file_system_kind(Path(folder))):
        return None
    fd = files.open_folder(None, folder)
    try:
        with suppress(FileExistsError):
            files.close(files.create(fd, LOCK_FILE, 0o666))
        return files.open_to_lock(os.path.join(folder, LOCK_FILE))
    except OSError as error:
        if error.errno not in _NOT_WRITABLE:
            raise
        return None
    finally:
        files.close(fd)
