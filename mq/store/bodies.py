"""Large bodies, streamed by workers: up into an unnamed file, or down from one by aiofiles."""

from __future__ import annotations

import asyncio
import errno
import io
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from operator import attrgetter
from typing import Any, Self, TypeVar

import aiofiles.threadpool

from mq.commit.operation import unavailable
from mq.config import CHUNK_BYTES, SMALL_TEXT_BYTES
from mq.disk.calls import OPEN_UNNAMED, SYNC, WRITE, Chain, check, run_one
from mq.disk.files import Files
from mq.properties import NO_PROPERTIES, Properties
from mq.spool.message.held import NO_FD
from mq.spool.message.trailer import pack_trailer
from mq.store.free_space import Floor
from mq.store.peeking.peeked_message import PeekedMessage
from mq.store.publishing.publish import Draft
from mq.store.receiving.received_message import BODY, Received

T = TypeVar("T")

Abandoned = Callable[[T], None] | None
"""Takes a result that nobody waits for any more."""

_LENGTH = attrgetter("length")


class _Stream:
    """A file that workers read or write. It is closed when no call uses it any more, even if the
    caller has given up waiting: the kernel would give the descriptor's number to another file."""

    def __init__(self, files: Files, fd: int, workers: Executor) -> None:
        self._files = files
        self._fd = fd
        self._workers = workers
        self._running: asyncio.Future[Any] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._running is not None and not self._running.done():
            self._running.add_done_callback(self._close)
        else:
            self._close(self._running)

    def _close(self, last: asyncio.Future[Any] | None) -> None:
        if last is not None and not last.cancelled():
            last.exception()  # The caller that waited for it may be gone.
        self._running = None  # An error in it has frames that hold this stream.
        if self._fd != NO_FD:
            self._files.close(self._fd)
            self._fd = NO_FD

    async def _run(self, call: Awaitable[T]) -> T:
        running = asyncio.ensure_future(call)
        self._running = running
        return await asyncio.shield(running)


class Upload(_Stream):
    """A body on its way into an unnamed file, as far as `floor` lets it. If it is closed without
    being published, nothing is left.

    The file, of `file_mode`, is made with the first piece: a body of one piece takes one call of a
    worker, whose file calls are made in one go.
    """

    def __init__(
        self, files: Files, folder_fd: int, file_mode: int, workers: Executor, floor: Floor
    ) -> None:
        super().__init__(files, NO_FD, workers)
        self._opening = (OPEN_UNNAMED, folder_fd, file_mode)
        self._floor = floor
        self._crc32 = 0
        self.length = 0

    async def write(self, piece: bytes | bytearray) -> None:
        """Write a piece. Raises StoreUnavailable."""
        await self._in_worker(self._write, piece)

    async def finish(
        self,
        last: bytes | bytearray,
        content_type: str | None,
        properties: Properties = NO_PROPERTIES,
    ) -> Draft:
        """Write the last piece and the properties after it, and sync the file before it joins a
        round. From here on the descriptor belongs to the draft, and publishing that closes it.
        Raises StoreUnavailable, and what `pack_trailer` raises."""
        trailer = pack_trailer(properties)
        await self._in_worker(self._end, last, trailer)
        fd, self._fd = self._fd, NO_FD
        return Draft(self.length, self._crc32, content_type, None, fd, trailer=trailer)

    async def read_whole(self, use: Callable[[bytes], T]) -> T:
        """Read what was written back into memory and pass it to `use`, in a worker. Raises what
        `use` raises, and StoreUnavailable."""
        return await self._in_worker(lambda: use(self._files.read(self._fd, self.length)))

    def _write(self, piece: bytes | bytearray) -> None:
        self._make(piece, lambda fd: ((WRITE, fd, piece),))

    def _end(self, last: bytes | bytearray, trailer: bytes) -> None:
        writing = [last, trailer] if trailer else [last]
        self._make(
            last, lambda fd: (*[(WRITE, fd, each) for each in writing], (SYNC, fd)), len(trailer)
        )

    def _make(
        self, piece: bytes | bytearray, calls: Callable[[int], Chain], more_bytes: int = 0
    ) -> None:
        """Make the calls that write a piece, and `more_bytes` beside it, to the file. With the
        first piece that is the file which the first call opens."""
        is_new = self._fd == NO_FD
        chain = (self._opening, *calls(~0)) if is_new else calls(self._fd)
        with self._floor.writing(len(piece) + more_bytes):
            made = check(run_one(self._files, chain))
        if is_new:
            self._fd = made[0]
        self._crc32 = zlib.crc32(piece, self._crc32)
        self.length += len(piece)

    async def _in_worker(self, call: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await self._run(loop.run_in_executor(self._workers, call, *arguments))
        except OSError as error:
            raise unavailable(error) from error


class Download(_Stream):
    """The body of a large message, piece by piece. It is closed at the end."""

    def __init__(self, files: Files, fd: int, length: int, workers: Executor) -> None:
        super().__init__(files, fd, workers)
        self._file = aiofiles.threadpool.wrap(_BodyFile(files, fd), executor=workers)
        self._length = length

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the pieces. Raises OSError, but never after the last byte: a client that has that
        byte has the message."""
        left = self._length
        while left:
            chunk = await self._run(self._file.read(min(left, CHUNK_BYTES)))
            if not chunk:
                raise OSError(errno.EIO, "the body ends early")
            left -= len(chunk)
            yield chunk


async def in_worker(
    workers: Executor,
    function: Callable[..., T],
    *arguments: object,
    abandoned: Abandoned[T] = None,
) -> T:
    """Run blocking file work. Raises StoreUnavailable for its OSError.

    With `abandoned` it runs even if the caller is cancelled meanwhile; its result then goes to
    `abandoned`.
    """
    running = asyncio.get_running_loop().run_in_executor(workers, function, *arguments)
    try:
        return await (running if abandoned is None else asyncio.shield(running))
    except OSError as error:
        raise unavailable(error) from error
    except asyncio.CancelledError:
        if abandoned is not None:
            running.add_done_callback(lambda done: _hand_over(done, abandoned))
        raise


def _hand_over(done: asyncio.Future[T], abandoned: Callable[[T], None]) -> None:
    if not done.cancelled() and done.exception() is None:
        abandoned(done.result())


def read_all(
    files: Files, messages: Sequence[Received | PeekedMessage], use: Callable[[Iterable[bytes]], T]
) -> T:
    """Pass the bodies to `use`, one by one, and close the messages, even if something is wrong with
    one. Blocking, for a worker."""
    try:
        if None not in map(BODY, messages):
            return use(map(BODY, messages))
        return use(_read_whole(files, each) for each in messages)
    finally:
        for each in messages:
            if each.fd != NO_FD:
                each.close(files)


def are_few_in_memory(messages: Sequence[Received | PeekedMessage]) -> bool:
    """Return whether their bodies are there already, and together as small as one small body."""
    return None not in map(BODY, messages) and total_length(messages) <= SMALL_TEXT_BYTES


def total_length(messages: Sequence[Received | PeekedMessage]) -> int:
    """Return the length of all bodies, in bytes."""
    return sum(map(_LENGTH, messages))


def _read_whole(files: Files, message: Received | PeekedMessage) -> bytes:
    return files.read(message.fd, message.length) if message.body is None else message.body


class _BodyFile(io.FileIO):
    """A large body as a file object, which reads through `Files`."""

    def __init__(self, files: Files, fd: int) -> None:
        super().__init__(fd, "rb", closefd=False)
        self._files = files

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        assert size >= 0
        offset = self.tell()
        data = self._files.read(self.fileno(), size, offset)
        self.seek(offset + len(data))
        return data
