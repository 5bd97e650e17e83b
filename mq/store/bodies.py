"""Large bodies, streamed by workers through aiofiles: up into an unnamed file, down from one."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from types import TracebackType
from typing import Self

import aiofiles.threadpool

from mq.config import CHUNK_BYTES
from mq.spool.files import BodyFile, Files
from mq.spool.message import measure
from mq.store.publish import Draft
from mq.store.receive import Received


class Upload:
    """A body on its way into an unnamed file. Closing it without publishing leaves nothing."""

    def __init__(self, files: Files, fd: int, workers: Executor) -> None:
        self._files = files
        self._fd = fd
        self._file = aiofiles.threadpool.wrap(BodyFile(files, fd), executor=workers)
        self._workers = workers
        self._crc32 = 0
        self.length = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._files.close(self._fd)

    async def write(self, chunk: bytes | bytearray) -> None:
        self._crc32 = zlib.crc32(chunk, self._crc32)
        self.length += len(chunk)
        await self._file.write(chunk)

    async def finish(self, content_type: str | None) -> Draft:
        """Sync the body, before it joins a batch. Raises OSError."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._workers, self._files.sync, self._fd)
        return Draft(self.length, self._crc32, content_type, None, self._fd)


async def chunks(files: Files, received: Received, workers: Executor) -> AsyncIterator[bytes]:
    """The body of a large message, piece by piece."""
    file = aiofiles.threadpool.wrap(BodyFile(files, received.fd), executor=workers)
    while chunk := await file.read(CHUNK_BYTES):
        yield chunk


def is_whole(files: Files, received: Received) -> bool:
    """Whether the open body passes its seal. Reads all of it; blocking, for a worker."""
    return received.crc32 is None or measure(files, received.fd) == (
        received.length,
        received.crc32,
    )
