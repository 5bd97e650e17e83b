"""Large bodies, streamed by workers through aiofiles: up into an unnamed file, down from one."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import io
import os
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Executor
from types import TracebackType
from typing import Any, Self, TypeVar

import aiofiles.threadpool

from mq.config import CHUNK_BYTES
from mq.operation import unavailable
from mq.spool.files import Files
from mq.spool.message import measure_twice
from mq.store.lease import Received
from mq.store.peek import Peeked
from mq.store.publish import Draft

T = TypeVar("T")


class _Stream:
    """A file that workers read or write. It is not closed under a call that is still running:
    the kernel would give the descriptor's number to another file."""

    def __init__(self, files: Files, fd: int, workers: Executor) -> None:
        self._files = files
        self._fd = fd
        self._workers = workers
        self._file = aiofiles.threadpool.wrap(_BodyFile(files, fd), executor=workers)
        self._running: asyncio.Future[Any] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._running is not None and not self._running.done():
            await asyncio.wait({self._running})
        self._files.close(self._fd)

    async def _run(self, call: Awaitable[T]) -> T:
        running = asyncio.ensure_future(call)
        self._running = running
        return await asyncio.shield(running)


class Upload(_Stream):
    """A body on its way into an unnamed file. Closing it without publishing leaves nothing."""

    def __init__(self, files: Files, fd: int, workers: Executor) -> None:
        super().__init__(files, fd, workers)
        self._crc32 = 0
        self.length = 0

    async def write(self, chunk: bytes | bytearray) -> None:
        """Raises StoreUnavailable."""
        self._crc32 = zlib.crc32(chunk, self._crc32)
        self.length += len(chunk)
        await self._run(self._file.write(chunk))

    async def finish(self, content_type: str | None) -> Draft:
        """Sync the body, before it joins a batch. Raises StoreUnavailable."""
        loop = asyncio.get_running_loop()
        await self._run(loop.run_in_executor(self._workers, self._files.sync, self._fd))
        return Draft(self.length, self._crc32, content_type, None, self._fd)

    async def read_whole(self, use: Callable[[bytes], T]) -> T:
        """Read what was written back into memory and hand it to `use`, in a worker. Raises what
        `use` raises, StoreUnavailable."""
        loop = asyncio.get_running_loop()
        return await self._run(
            loop.run_in_executor(
                self._workers, lambda: use(self._files.read(self._fd, self.length))
            )
        )

    async def _run(self, call: Awaitable[T]) -> T:
        try:
            return await super()._run(call)
        except OSError as error:
            raise unavailable(error) from error


class Download(_Stream):
    """The body of a large message, piece by piece; closes it at the end."""

    def __init__(self, files: Files, fd: int, length: int, workers: Executor) -> None:
        super().__init__(files, fd, workers)
        self._length = length

    async def chunks(self) -> AsyncIterator[bytes]:
        """Raises OSError, never after the last byte: who has that has the message."""
        left = self._length
        while left:
            chunk = await self._run(self._file.read(min(left, CHUNK_BYTES)))
            if not chunk:
                raise OSError(errno.EIO, "the body ends early")
            left -= len(chunk)
            yield chunk


def find_damaged(files: Files, received: Sequence[Received]) -> list[Received]:
    """Those whose open body fails its seal. Reads all of each; blocking, for a worker."""
    return [each for each in received if not is_whole(files, each)]


def is_whole(files: Files, received: Received) -> bool:
    """Whether the open body passes its seal. Reads all of it; blocking, for a worker."""
    return received.crc32 is None or measure_twice(files, received.fd) == (
        received.length,
        received.crc32,
    )


async def in_worker(workers: Executor, function: Callable[..., T], *arguments: object) -> T:
    """Run blocking file work. Raises StoreUnavailable where it raises OSError."""
    try:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(workers, function, *arguments)
    except OSError as error:
        raise unavailable(error) from error


def read_whole(files: Files, message: Received | Peeked) -> bytes:
    """The body in memory; closes the message. Blocking, for a worker."""
    if message.body is not None:
        return message.body
    try:
        return files.read(message.fd, message.length)
    finally:
        message.close(files)


class _BodyFile(io.FileIO):
    """A large body as a file object. Every read and write passes `Files`."""

    def __init__(self, files: Files, fd: int) -> None:
        super().__init__(fd, "r+b" if _is_writable(fd) else "rb", closefd=False)
        self._files = files

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        self._files.write(self.fileno(), data)
        return len(data)

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        assert size >= 0
        offset = self.tell()
        data = self._files.read(self.fileno(), size, offset)
        self.seek(offset + len(data))
        return data


def _is_writable(fd: int) -> bool:
    return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
