"""FIFO queues of a gateway, without HTTP."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mq.config import ServerConfig
from mq.disk.files import Files
from mq.errors import MQError
from mq.names import MessageId, QueueName
from mq.store.opening import open_store
from mq.store.publishing.publish import Draft, Published
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from mq.times import in_ns
from mq_sqs.fifo.publishing import OrderedDraft
from mq_sqs.fifo.service import FifoService
from mq_sqs.messages.packing import kept_texts, trailer_of
from mq_sqs.messages.properties import DEDUPLICATION_ID, GROUP_ID
from tests.support.messages import names_in
from tests.support.stores import LONG_SECONDS
from tests.support.submits import answered

LINE = QueueName("line.fifo")
DEAD_LINE = QueueName("dead.fifo")


class FifoLine:
    """The FIFO queue `line.fifo` of one gateway."""

    def __init__(self, store: Store, queue: QueueName = LINE) -> None:
        self.store = store
        self.queue = queue
        self.service = FifoService(store)

    async def send(self, body: str, group: str = "a", *, again: str | None = None) -> Published:
        """Send a message with the body for its deduplication id, unless `again` names another
        one."""
        [published] = await self.send_all((body, group), again=again)
        return published

    async def send_all(
        self, *messages: tuple[str, str], again: str | None = None
    ) -> list[Published]:
        """Send bodies in their groups, in one request."""
        drafts = [in_order(body, group, again or body) for body, group in messages]
        if len(drafts) == 1 and self.service.has_read(self.queue):
            return [await answered(self.service.submit_send, self.queue, drafts[0])]
        return await self.service.send(self.queue, drafts)

    async def receive(
        self, limit: int = 1, seconds: float = LONG_SECONDS, wait: float = 0.0
    ) -> list[Received]:
        if wait or not self.service.has_read(self.queue):
            return await self.service.receive_many(self.queue, limit, seconds, wait, None)
        submit = partial(
            self.service.submit_receive,
            limit=limit,
            visibility_ns=in_ns(seconds),
            may_wait=False,
        )
        taken: list[Received] = await answered(submit, self.queue)
        return taken

    async def bodies(self, limit: int = 10) -> list[str]:
        """Receive, and return the bodies."""
        return bodies_of(await self.receive(limit))

    async def remove(self, received: Received) -> None:
        leases = frozenset({received.lease})
        await answered(self.service.submit_remove, self.queue, received.message_id, leases)

    async def remove_many(
        self, ids: Sequence[MessageId], leases: frozenset[int]
    ) -> list[MQError | None]:
        outcomes: list[MQError | None] = await answered(
            self.service.submit_remove_many, self.queue, ids, leases
        )
        return outcomes

    async def show(self, received: Received) -> bool:
        return await self.service.change_visibility(
            self.queue, received.message_id, received.lease, 0
        )

    async def drain(self) -> list[str]:
        """Receive all that can be received, each removed before the next is."""
        found: list[str] = []
        while received := await self.receive(10):
            found += bodies_of(received)
            for each in received:
                await self.remove(each)
        return found


@asynccontextmanager
async def fifo_on(
    root: Path, files: Files | None = None, *, notes: dict[str, str] | None = None, **settings: Any
) -> AsyncIterator[FifoLine]:
    """Open a gateway on `root`. At the end it lets go of the FIFO queues."""
    line = None
    try:
        async with open_store(replace(ServerConfig(root=root), **settings), files) as store:
            await store.create_queue(LINE, notes or {})
            line = FifoLine(store)
            yield line
    finally:
        if line is not None:
            line.service.close()


async def bury(line: FifoLine, root: Path, body: str) -> None:
    """Send a message that dies at its first receive, to a queue that is made for it."""
    await line.store.create_queue(DEAD_LINE)
    await line.store.change_settings(line.queue, {"max-receives": "1", "dead-letters": DEAD_LINE})
    sent = await line.send(body)
    await line.show((await line.receive())[0])
    assert names_in(root / "queues" / DEAD_LINE) == [sent.message_id]


def in_order(body: str, group: str, deduplication_id: str) -> OrderedDraft:
    data = body.encode()
    lane = {GROUP_ID: group, DEDUPLICATION_ID: deduplication_id}
    trailer = trailer_of("", kept_texts(lane))
    draft = Draft(len(data), zlib.crc32(data), body=data, trailer=trailer)
    return OrderedDraft(draft, group, deduplication_id)


def bodies_of(received: Sequence[Received]) -> list[str]:
    return [(each.body or b"").decode() for each in received]
