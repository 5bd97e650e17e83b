"""`Session`: runs the operations of one client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar
from weakref import ref

from mq.client.blocking.connections import Connections
from mq.client.blocking.exchange import Exchange
from mq.client.connection import ServerAddress
from mq.client.errors import ClientClosed, ClientError, NoAnswer
from mq.client.forking import Unpicklable
from mq.client.retries import new_context
from mq.client.token import Token, bearer
from mq.client.wire import CLOSING_SECONDS, ClientPause, Operation, Request, ServerAnswer, Stopped

T = TypeVar("T")


class Session(Unpicklable):
    """The connections of one client, and what its requests share."""

    def __init__(
        self, address: ServerAddress, token: Token, timeout_seconds: float, retry_seconds: float
    ) -> None:
        """Open a session, which sends nothing yet. Raises ValueError for wrong times."""
        self.address = address
        self.context = new_context(address.url, token, timeout_seconds, retry_seconds)
        self._opened: set[ref[Connections]] = set()
        self._is_closed = False
        self._connections = self.connections()

    def close(self) -> None:
        """Close all connections, those of workers too."""
        self._is_closed = True
        for connections in [each() for each in list(self._opened)]:
            if connections is not None:
                connections.close()

    def connections(self) -> Connections:
        """Return separate connections, for a caller that wants to cut them off."""
        connections = Connections(self.address)
        self._opened.add(ref(connections, self._opened.discard))
        if self._is_closed:
            connections.close()
        return connections

    def run(
        self,
        operation: Operation[T],
        stop: threading.Event | None = None,
        connections: Connections | None = None,
    ) -> T:
        """Run an operation. Raises what it raises, and Stopped if `stop` is set while it pauses."""
        connections = connections or self._connections
        told: ServerAnswer | None = None
        try:
            step = next(operation)
            while True:
                try:
                    told = None
                    if isinstance(step, ClientPause):
                        self._pause(step.seconds, stop)
                    else:
                        told = connections.exchange(step)
                except ClientError as error:
                    step = operation.throw(error)
                else:
                    step = operation.send(told)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            operation.close()

    def _pause(self, seconds: float, stop: threading.Event | None) -> None:
        """Wait. Raises Stopped if `stop` is set meanwhile; without it ClientClosed, soon after the
        client is closed. It looks for that now and then: a signal handler may close the client, and
        would wait for ever for a lock that the thread which it interrupts holds."""
        if stop is not None:
            if stop.wait(seconds):
                raise Stopped
            return
        over_at = time.monotonic() + seconds
        while (left := over_at - time.monotonic()) > 0:
            time.sleep(min(left, CLOSING_SECONDS))
            if self._is_closed:
                raise ClientClosed

    def begin(self, request: Request, chunks: Iterator[bytes] | None = None) -> Exchange:
        """Send a request once, or again if it is repeatable and met the end of an idle connection,
        with `chunks` as its body if they are given. The answer is to be read and closed. Raises
        ClientError, and what `chunks` raises."""
        headers = {**bearer(self.context.token.show()), **request.headers}
        timeout = self.context.timeout_seconds
        shown = replace(request, headers=headers, timeout_seconds=timeout)
        if chunks is None and request.is_repeatable:
            try:
                return self._begin_answered(shown)
            except NoAnswer as error:
                if not error.has_parted:
                    raise
        return self._connections.begin(shown, chunks)

    def _begin_answered(self, request: Request) -> Exchange:
        exchange = self._connections.begin(request)
        try:
            exchange.head()
        except BaseException:
            exchange.close()
            raise
        return exchange
