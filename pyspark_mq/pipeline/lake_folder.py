"""The folder of a lake, on any file system that Spark reaches, by Hadoop's API."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import unquote, urlsplit

from mq.spool.files import Files


class LakeFolder:
    """The folder. Names are relative to the lake. Methods raise what Java raises."""

    def __init__(self, spark: Any, path: str) -> None:
        jvm = spark._jvm
        self._jvm = jvm
        self._path_of = jvm.org.apache.hadoop.fs.Path
        top = self._path_of(path)
        self._fs = top.getFileSystem(spark._jsc.hadoopConfiguration())
        self._top = self._fs.makeQualified(top)
        self.url = self._top.toString()

    def full(self, name: str) -> str:
        return f"{self.url}/{name}"

    def _path(self, name: str) -> Any:
        return self._path_of(self.full(name))

    def exists(self, name: str) -> bool:
        return bool(self._fs.exists(self._path(name)))

    def make(self, name: str) -> None:
        self._fs.mkdirs(self._path(name))

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
        """Rename a file, if it is still there, and make the folder that it goes to."""
        if not self.exists(source):
            return
        self.make(target.rpartition("/")[0])
        if not self._fs.rename(self._path(source), self._path(target)):
            raise OSError(f"{self.full(source)} was not renamed to {self.full(target)}")

    def remove(self, name: str) -> None:
        self._fs.delete(self._path(name), True)

    def read(self, name: str) -> str:
        stream = self._fs.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
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
        parts = urlsplit(self.url)
        if parts.scheme not in ("", "file"):
            return
        fd = os.open(unquote(parts.path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            Files().sync_file_system(fd)
        finally:
            os.close(fd)
