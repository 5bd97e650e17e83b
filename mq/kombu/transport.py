"""`MqTransport`: a connection of kombu to a server of MQ."""

from __future__ import annotations

import os
from contextlib import suppress
from queue import Empty
from typing import Any

from kombu.transport import virtual

from mq import __version__
from mq.client import (
    Forbidden,
    NoAnswer,
    QueueNotFound,
    Unavailable,
    UnexpectedAnswer,
    operations,
)
from mq.client.blocking.session import Session
from mq.kombu.broker import DEFAULT_PORT, address_of, open_session, read_options
from mq.kombu.channel import EXCHANGE_TYPES, MqChannel
from mq.kombu.inbox import Arrival, Inbox
from mq.names import QueueName

_PROBED = QueueName("kombu-probe")
"""The name of a queue that need not exist."""


class MqTransport(virtual.Transport):
    """A connection of kombu. Threads receive what is consumed. Celery's event loop is told through
    a socket; without an event loop `drain_events` waits.

    Errors that kombu and Celery mend by connecting again are `connection_errors`. Others, such as a
    token that is refused, end a worker.
    """

    Channel = MqChannel
    driver_type = "mq"
    driver_name = "mq.client"
    default_port = DEFAULT_PORT
    connection_errors = (
        *virtual.Transport.connection_errors,
        NoAnswer, Unavailable, UnexpectedAnswer, QueueNotFound,
    )  # fmt: skip
    recoverable_connection_errors = connection_errors
    recoverable_channel_errors = ()
    implements = virtual.Transport.implements.extend(
        asynchronous=True, exchange_type=EXCHANGE_TYPES
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        """Open a transport. Raises ValueError and OSError for a URL or options that are wrong."""
        super().__init__(client, **kwargs)
        self.options = read_options(client.transport_options or {})
        self._address = address_of(client)
        self.session: Session | None = None
        self.inbox: Inbox | None = None
        self._pid = 0

    def driver_version(self) -> str:
        return __version__

    def establish_connection(self) -> Any:
        """Ask the server once, so that kombu and Celery themselves report that they try again.

        Raises NoAnswer, Unauthorized, and UnexpectedAnswer if another program answers.
        """
        probe = open_session(self._address, self.options, retry_seconds=0.0)
        try:
            with suppress(QueueNotFound, Forbidden):
                probe.run(operations.peek(probe.context, _PROBED, 1, None))
        finally:
            probe.close()
        # The process may have been forked since the transport was made.
        self._pid = os.getpid()
        self.session = open_session(self._address, self.options, self.options.retry_seconds)
        self.inbox = Inbox()
        return super().establish_connection()

    def close_connection(self, connection: Any) -> None:
        if self._pid != os.getpid():
            return
        super().close_connection(connection)
        if self.session is not None and self.inbox is not None:
            self.inbox.close()
            self.session.close()

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver one message. Raises socket.timeout."""
        assert self.inbox is not None
        try:
            arrival = self.inbox.take(timeout)
        except Empty:
            raise TimeoutError from None
        self._pass_on(arrival)

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        assert self.inbox is not None
        loop.add_reader(self.inbox.fileno(), self._deliver_one)

    def unregister_from_event_loop(self, connection: Any, loop: Any) -> None:
        assert self.inbox is not None
        loop.remove(self.inbox.fileno())

    def _deliver_one(self) -> None:
        """Deliver one message. If there are more, the event loop comes back for them after its
        other work: in a worker with the pool `solo` a delivery runs the task."""
        assert self.inbox is not None
        with suppress(Empty):
            self._pass_on(self.inbox.take(0))

    def _pass_on(self, arrival: Arrival) -> None:
        if arrival.error is not None:
            raise arrival.error
        assert arrival.message is not None
        arrival.deliver(arrival.message)
