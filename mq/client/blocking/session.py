"""`Session`: what does the operations of one client."""

from __future__ import annotations

import threading
import time
from typing import TypeVar

from mq.client.blocking.connections import Connections
from mq.client.errors import NoAnswer
from mq.client.own_ids import OwnIds
from mq.client.retries import Context
from mq.client.token import Token
from mq.client.wire import Answer, Operation, Pause, Stopped
from mq.connection import Address

T = TypeVar("T")


class Session:
    """The connections of one client, and what its requests share."""

    def __init__(
        self, address: Address, token: Token, timeout_seconds: float, retry_seconds: float
    ) -> None:
        self.address = address
        self._token = token
        self._connections = self.connections()
        self.context = Context(
            timeout_seconds, retry_seconds, time.monotonic, token.refresh, OwnIds()
        )

    def close(self) -> None:
        self._connections.close()

    def connections(self) -> Connections:
        """Connections of their own for who wants to cut them off."""
        return Connections(self.address, self._token)

    def run(
        self,
        operation: Operation[T],
        stop: threading.Event | None = None,
        connections: Connections | None = None,
    ) -> T:
        """Do what an operation asks for. Raises what it raises, and Stopped if `stop` is set when
        it pauses."""
        connections = connections or self._connections
        told: Answer | None = None
        try:
            step = next(operation)
            while True:
                try:
                    told = None
                    if isinstance(step, Pause):
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


def _pause(seconds: float, stop: threading.Event | None) -> None:
    if stop is None:
        time.sleep(seconds)
    elif stop.wait(seconds):
        raise Stopped
