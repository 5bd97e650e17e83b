"""`AsyncClient`: where a server is, and how to talk to it."""

from __future__ import annotations

import os
from typing import Self

from mq.client.aio.queue import AsyncQueue
from mq.client.aio.session import AsyncSession
from mq.client.arguments import queue_name
from mq.client.connection import parse_url
from mq.client.token import Token
from mq.config import CLIENT_RETRY_SECONDS, CLIENT_TIMEOUT_SECONDS


class AsyncClient:
    """A server of MQ, for asyncio. `mq.client.Client` says what the arguments are.

    One client serves any number of tasks of one event loop. A request that is cancelled may or may
    not have been done. Making a client sends nothing. Raises ValueError for wrong arguments, and
    OSError for files.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        socket: str | os.PathLike[str] | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        timeout_seconds: float = CLIENT_TIMEOUT_SECONDS,
        retry_seconds: float = CLIENT_RETRY_SECONDS,
    ) -> None:
        address = parse_url(url, socket, ca_file)
        self._session = AsyncSession(
            address,
            Token(token, token_file, address),
            timeout_seconds,
            retry_seconds,
        )

    def queue(self, name: str) -> AsyncQueue:
        """Return a queue by its name, whether it exists or not. This sends nothing. Raises
        InvalidName."""
        return AsyncQueue(self._session, queue_name("name", name))

    async def close(self) -> None:
        """Close all connections. Requests under way raise ClientError."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session.address.url!r})"
