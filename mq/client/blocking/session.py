"""`Session`: runs the operations of one client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from mq.client.blocking.connections import Connections
from mq.client.blocking.exchange import Exchange
from mq.client.connection import ServerAddress
from mq.client.errors import NoAnswer
from mq.client.own_ids import OwnIds
from mq.client.retries import Context
from mq.client.token import Token, bearer
from mq.client.wire import ClientPause, Operation, Request, ServerAnswer, Stopped

T = TypeVar("T")


class Session:
    """The connections of one client, and what its requests share."""

    def __init__(
        self, address: ServerAddress, token: Token, timeout_seconds: float, retry_seconds: float
    ) -> None:
        self.address = address
        self._connections = self.connections()
        self.context = Context(timeout_seconds, retry_seconds, time.monotonic, token, OwnIds())

    def close(self) -> None:
        self._connections.close()

    def connections(self) -> Connections:
        """Return separate connections, for a caller that wants to cut them off."""
        return Connections(self.address)

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
                        _pause(step.seconds, stop)
                    else:
                        told = connections.exchange(step)
                except NoAnswer as error:
                    step = operation.throw(error)
                else:
                    step = operation.send(told)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            operation.close()

    def begin(self, request: Request, chunks: Iterator[bytes] | None = None) -> Exchange:
        """Send a request once, with `chunks` as its body if they are given. The answer is to be
        read and closed. Raises ClientError, and what `chunks` raises."""
        headers = {**bearer(self.context.token.show()), **request.headers}
        timeout = self.context.timeout_seconds
        shown = replace(request, headers=headers, timeout_seconds=timeout)
        return self._connections.begin(shown, chunks)


def _pause(seconds: float, stop: threading.Event | None) -> None:
    if stop is None:
        time.sleep(seconds)
    elif stop.wait(seconds):
        raise Stopped
