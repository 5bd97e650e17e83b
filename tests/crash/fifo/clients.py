"""Clients of FIFO queues; every request and answer goes to the ledger. A request that fails is made
again, as SDKs do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from mq.errors import LeaseMismatch, MessageNotFound, StoreUnavailable
from mq.names import QueueName
from mq.store.receiving.received_message import Received
from mq_sqs.fifo.in_flight import look_for_overdue, look_for_removed
from mq_sqs.fifo.moving import OrderedMove
from tests.crash.enumeration.clock import LONG_SECONDS
from tests.crash.enumeration.recorder import RecordedFiles
from tests.crash.enumeration.scene import Scene
from tests.crash.fifo.ledger import FifoLedger
from tests.support.fifo import DEAD_LINE, FifoLine

T = TypeVar("T")

MOST_TRIES = 20


class FifoClients:
    """Of one gateway, which takes over from those before it."""

    def __init__(self, scene: Scene, ledger: FifoLedger) -> None:
        self.scene = scene
        self.ledger = ledger
        self.files: RecordedFiles = scene.files()
        self.server = scene.open_server(self.files)
        self.line = FifoLine(self.server.store)
        # Only `look` looks for what others do: in a run nothing rests on time.
        self.line.service._is_looking = True

    def run(self, *work: Coroutine[Any, Any, Any]) -> list[Any]:
        """Make requests at once. A defect is raised."""
        return self.server.run_well(*work)

    def make_queues(self, notes: dict[str, str]) -> None:
        self.run(self.server.store.create_queue(DEAD_LINE))
        self.run(self.server.store.create_queue(self.line.queue, notes))

    def say(self, fact: Callable[..., None], **values: Any) -> None:
        """Tell the ledger of now, and that of each cut."""
        bound = partial(fact, **values)
        bound(self.ledger)
        self.scene.disk.say(bound)

    async def send(self, group: str, *bodies: str) -> None:
        """Send one message, or a batch."""
        for body in bodies:
            self.say(FifoLedger.asks_send, group=group, body=body)
        told = await _try(lambda: self.line.send_all(*((body, group) for body in bodies)))
        for body, each in zip(bodies, told, strict=True):
            self.say(FifoLedger.is_sent, body=body, message_id=each.message_id)

    async def receive(self, limit: int = 1, seconds: float = LONG_SECONDS) -> list[Received]:
        """Receive without a second try: what was hidden stays so."""
        try:
            taken = await self.line.receive(limit, seconds)
        except StoreUnavailable:
            return []
        for each in taken:
            lease = each.lease if seconds == LONG_SECONDS else 0
            self.say(FifoLedger.is_received, body=body_of(each), lease=lease)
        return taken

    async def remove(self, received: Received) -> None:
        """Remove a message under its receipt, as `DeleteMessage` does."""
        self.say(FifoLedger.asks_remove, body=body_of(received))
        try:
            await _try(lambda: self.line.remove(received))
        except (LeaseMismatch, MessageNotFound):
            return
        self.say(FifoLedger.is_removed, body=body_of(received))

    async def show(self, received: Received) -> None:
        self.say(FifoLedger.asks_end, body=body_of(received))
        await _try(lambda: self.line.show(received))

    async def purge(self) -> None:
        """Purge the queue over HTTP."""
        await self._purge(self.server.store.purge, forgets=False)

    async def purge_queue(self) -> None:
        """Purge the queue as `PurgeQueue` does."""
        await self._purge(self.line.service.purge, forgets=True)

    async def _purge(
        self, purge: Callable[[QueueName], Awaitable[object]], *, forgets: bool
    ) -> None:
        bodies = tuple(body for body, each in self.ledger.all().items() if each.message_id)

        async def purge_all() -> None:
            """Purge what was sent until now, which is more at the next try."""
            self.say(FifoLedger.asks_purge, forgets=forgets)
            await purge(self.line.queue)

        await _try(purge_all)
        self.say(FifoLedger.is_purged, bodies=bodies)

    async def move_back(self, limit: int) -> None:
        """Move dead letters back, as a move task does."""
        move = OrderedMove(DEAD_LINE, None, limit, frozenset())
        await _try(lambda: self.line.service.move(move))

    async def look(self) -> None:
        await _try(lambda: look_at_hidden(self.line))


async def look_at_hidden(line: FifoLine) -> None:
    """Look for what the mover did, as a gateway does all the time. Raises StoreUnavailable."""
    await line.store.call(look_for_overdue, line.service._queues)
    await line.store.run(partial(look_for_removed, fifo=line.service._queues))


def body_of(received: Received) -> str:
    assert received.body is not None
    return received.body.decode()


async def _try(request: Callable[[], Awaitable[T]]) -> T:
    for _ in range(MOST_TRIES):
        try:
            return await request()
        except StoreUnavailable:
            continue
    return await request()
