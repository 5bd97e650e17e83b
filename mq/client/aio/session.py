"""`AsyncSession`: runs the operations of one client."""

from __future__ import annotations

import asyncio
import time
from typing import TypeVar
from weakref import WeakSet

from mq.client.aio.connections import AsyncConnections
from mq.client.connection import ServerAddress
from mq.client.errors import ClientClosed, ClientError
from mq.client.forking import Unpicklable
from mq.client.retries import new_context
from mq.client.token import Token
from mq.client.wire import CLOSING_SECONDS, ClientPause, Operation, ServerAnswer, Stopped

T = TypeVar("T")


class AsyncSession(Unpicklable):
    """The connections of one client, and what its requests share."""

    def __init__(
        self, address: ServerAddress, token: Token, timeout_seconds: float, retry_seconds: float
    ) -> None:
        """Open a session, which sends nothing yet. Raises ValueError for wrong times."""
        self.address = address
        self.context = new_context(address.url, token, timeout_seconds, retry_seconds)
        self._opened: WeakSet[AsyncConnections] = WeakSet()
        self._is_closed = False
        self._connections = self.connections()

    async def close(self) -> None:
        """Close all connections, those of workers too."""
        self._is_closed = True
        for connections in list(self._opened):
            await connections.close()

    def connections(self) -> AsyncConnections:
        """Return separate connections, for a caller that wants to end them."""
        connections = AsyncConnections(self.address)
        self._opened.add(connections)
        if self._is_closed:
            connections.hang_up()
        return connections

    async def run(
        self,
        operation: Operation[T],
        stop: asyncio.Event | None = None,
        connections: AsyncConnections | None = None,
    ) -> T:
        """Run an operation. Raises what it raises, and Stopped if `stop` is set while it pauses."""
        connections = connections or self._connections
        try:
            step = next(operation)
            while True:
                told: ServerAnswer | None = None
                try:
                    if isinstance(step, ClientPause):
                        await self._pause(step.seconds, stop)
                    else:
                        told = await connections.exchange(step)
                except ClientError as error:
                    step = operation.throw(error)
                else:
                    step = operation.send(told)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            operation.close()

    async def _pause(self, seconds: float, stop: asyncio.Event | None) -> None:
        """Wait. Raises Stopped if `stop` is set meanwhile; without it ClientClosed, soon after the
        client is closed."""
        if stop is None:
            return await self._pause_unless_closed(seconds)
        try:
            async with asyncio.timeout(seconds):
                await stop.wait()
        except TimeoutError:
            return
        raise Stopped

    async def _pause_unless_closed(self, seconds: float) -> None:
        over_at = time.monotonic() + seconds
        while (left := over_at - time.monotonic()) > 0:
            await asyncio.sleep(min(left, CLOSING_SECONDS))
            if self._is_closed:
                raise ClientClosed
