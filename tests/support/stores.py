"""A store as a client uses it, without HTTP."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from mq.config import SMALL_BODY_BYTES, ServerConfig
from mq.disk.files import Files
from mq.names import MessageId, QueueName
from mq.store.opening import open_store
from mq.store.peeking.peeked_message import PeekedMessage
from mq.store.publishing.publish import Draft, Entry, Published
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from tests.support.faults import MortalFiles
from tests.support.messages import SECOND_NS

T = TypeVar("T")

ORDERS = QueueName("orders")
LONG_SECONDS = 1000.0
"""A visibility that no test outlives."""


@asynccontextmanager
async def store_on(root: Path, files: Files | None = None, **settings: Any) -> AsyncIterator[Store]:
    """Open one server's store on `root`, with the queue `orders`."""
    async with open_store(replace(ServerConfig(root=root), **settings), files) as store:
        await store.create_queue(ORDERS)
        yield store


async def publish(store: Store, body: bytes, queue: QueueName = ORDERS) -> MessageId:
    """Publish as `publish_as` does. Returns the id."""
    return (await publish_as(store, body, queue)).message_id


async def publish_as(
    store: Store,
    body: bytes,
    queue: QueueName = ORDERS,
    message_id: MessageId | None = None,
    delay_seconds: float = 0,
) -> Published:
    """Publish as HTTP does: small bodies from memory, larger ones through an upload."""
    delay_ns = int(delay_seconds * SECOND_NS)
    if len(body) <= SMALL_BODY_BYTES:
        return await store.publish(queue, draft_of(body, message_id, delay_seconds))
    async with store.open_upload() as upload:
        draft = await upload.finish(body, None)
        return await store.publish(queue, replace(draft, message_id=message_id, delay_ns=delay_ns))


def draft_of(body: bytes, message_id: MessageId | None = None, delay_seconds: float = 0) -> Draft:
    """Return a message to publish from memory."""
    delay_ns = int(delay_seconds * SECOND_NS)
    return Draft(len(body), zlib.crc32(body), None, body, -1, message_id, delay_ns)


def batch_of(*drafts: Draft) -> list[Entry]:
    """Return a batch as it comes in lines."""
    return [Entry(line, draft) for line, draft in enumerate(drafts, start=1)]


async def receive(
    store: Store, queue: QueueName = ORDERS, seconds: float = LONG_SECONDS
) -> Received:
    """Take the oldest message, which must be there."""
    received = await store.receive(queue, seconds)
    assert received is not None
    return received


async def body_of(store: Store, received: Received | PeekedMessage) -> bytes:
    if received.body is not None:
        return received.body
    async with store.open_download(received) as download:
        return b"".join([chunk async for chunk in download.chunks()])


async def drain(store: Store, queue: QueueName = ORDERS) -> list[MessageId]:
    """Take everything that is ready; returns the ids in the order they came."""
    ids = []
    while (received := await store.receive(queue, LONG_SECONDS)) is not None:
        received.close(store._work.files)
        ids.append(received.message_id)
    return ids


async def eventually(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait for a condition; fails when it does not come."""
    async with asyncio.timeout(20):
        while not await condition():
            await asyncio.sleep(0.005)


class MortalStore:
    """A store with its own files, which can die."""

    def __init__(
        self, root: Path, runner: asyncio.Runner, files: MortalFiles, max_receives: int = 0
    ) -> None:
        self.files = files
        self._runner = runner
        self._stack = AsyncExitStack()
        config = ServerConfig(root=root, max_receives=max_receives)
        opening = self._stack.enter_async_context(open_store(config, self.files))
        self.store: Store = self.run(opening)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def close(self) -> None:
        self.run(self._stack.aclose())

    def kill(self) -> None:
        """End the store like a killed process: nothing of what closing does reaches the disk; the
        locks end."""
        self.files.calls_left = 0
        self.close()
