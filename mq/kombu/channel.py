"""`MqChannel`: what kombu does with queues, exchanges and messages, on a server of MQ."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from queue import Empty
from typing import Any

from amqp.protocol import queue_declare_ok_t
from kombu.exceptions import ChannelError
from kombu.transport import virtual
from kombu.transport.base import to_rabbitmq_queue_arguments

from mq.client import Forbidden, Message, Queue, QueueNotFound
from mq.client.blocking.session import Session
from mq.kombu.broker import MqOptions
from mq.kombu.inbox import Inbox
from mq.kombu.keeper import Keeper
from mq.kombu.malformed import malformed_is_rejected
from mq.kombu.payload import (
    OWN_ID,
    body_of,
    delay_of,
    payload_of,
    refuse_arguments,
    refuse_properties,
)
from mq.kombu.prefetch import Prefetch
from mq.kombu.receiver import Consumption, Receiver
from mq.names import parse_queue_name

EXCHANGE_TYPES = frozenset({"direct", "topic"})


class MqChannel(virtual.Channel):
    """One consumer or producer. Threads of its own receive, renew and settle the messages that it
    consumes; its methods wait for the server only to declare, get, count, purge and publish.

    It knows the exchanges and bindings that this connection has declared; the server keeps none of
    them. A process that was forked must not use its parent's channel; closing it there does
    nothing.
    """

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._session: Session = connection.session
        self._options: MqOptions = connection.options
        self._inbox: Inbox = connection.inbox
        self._pid = os.getpid()
        self._prefetch = Prefetch()
        self._keeper = Keeper(self._session, self._prefetch)
        self._receiver = Receiver(
            session=self._session,
            options=self._options,
            prefetch=self._prefetch,
            keeper=self._keeper,
            inbox=self._inbox,
        )
        self._received: dict[str, Message] = {}

    # Queues

    def queue_declare(
        self, queue: str | None = None, passive: bool = False, **kwargs: Any
    ) -> queue_declare_ok_t:
        """Declare a queue. Messages are counted only if `passive`: with many of them that takes
        time, and it takes the right to read."""
        if passive:
            try:
                return queue_declare_ok_t(queue, self._size(str(queue)), 0)
            except QueueNotFound as error:
                raise ChannelError(str(error), (50, 10), "Channel.queue_declare", "404") from error
        refuse_arguments(str(queue), kwargs.get("arguments") or {}, bool(kwargs.get("auto_delete")))
        if not queue:
            raise ValueError("a queue of MQ has a name; the server makes none up")
        self._new_queue(queue)
        return queue_declare_ok_t(queue, 0, 0)

    def exchange_declare(
        self, exchange: str | None = None, type: str = "direct", *given: Any, **kwargs: Any
    ) -> None:
        """Declare an exchange. Raises ChannelError for types other than direct and topic."""
        if (type or "direct") not in EXCHANGE_TYPES:
            raise ChannelError(
                f"exchange {exchange} has the type {type}: MQ has direct and topic. Remote control "
                "needs fanout: set worker_enable_remote_control = False. For copies give each "
                "reader a queue, and name them in the setting also of one (mqctl set)",
                (50, 40), "Channel.exchange_declare", "540",
            )  # fmt: skip
        super().exchange_declare(exchange, type, *given, **kwargs)

    def prepare_queue_arguments(
        self, arguments: dict[str, Any] | None, **options: Any
    ) -> dict[str, Any]:
        """Return the arguments for `queue_declare`, which refuses those that MQ does not have, as
        in `Queue(max_priority=9)`."""
        prepared: dict[str, Any] = to_rabbitmq_queue_arguments(arguments or {}, **options)
        return prepared

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **kwargs: Any
    ) -> None:
        """Delete a queue. With `if_unused` the queue stays: the server does not know who consumes
        it."""
        if if_unused or (if_empty and self._size(queue)):
            return
        try:
            self._queue(queue).delete()
        except QueueNotFound:
            pass
        self.state.queue_bindings_delete(queue)

    def _new_queue(self, queue: str, **kwargs: Any) -> None:
        try:
            self._queue(queue).create()
        except Forbidden:
            # The token may only use queues. If this queue is missing, using it will say so.
            pass

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        try:
            self._size(queue)
        except QueueNotFound:
            return False
        return True

    def _size(self, queue: str) -> int:
        self._keeper.wait_for_releases()
        return self._queue(queue).counts().ready

    def _purge(self, queue: str) -> int:
        """Purge ready messages, as AMQP has it: leased and delayed ones stay. Returns their
        number. Raises ChannelError if there is no such queue, which Celery counts as an empty
        one."""
        self._keeper.wait_for_releases()
        try:
            return self._queue(queue).purge("ready")
        except QueueNotFound as error:
            raise ChannelError(str(error), (50, 30), "Channel.queue_purge", "404") from error

    def _queue(self, name: str) -> Queue:
        return Queue(self._session, parse_queue_name(name))

    # Publishing

    def prepare_message(
        self, body: Any, priority: int | None = None, *given: Any, **kwargs: Any
    ) -> dict[str, Any]:
        """Prepare a message. Raises ValueError for a priority, and for anything else that MQ does
        not have."""
        message: dict[str, Any] = super().prepare_message(body, priority, *given, **kwargs)
        refuse_properties(message)
        # kombu keeps the properties when it tries again.
        message["properties"].setdefault(OWN_ID, self._session.context.ids.next())
        return message

    def encode_body(self, body: Any, encoding: str | None = None) -> tuple[Any, str | None]:
        """Leave text as it is, so that people can read it in the queue."""
        if isinstance(body, str) and encoding == virtual.Channel.body_encoding:
            return body, "utf-8"
        encoded: tuple[Any, str | None] = super().encode_body(body, encoding)
        return encoded

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        own_id = message["properties"].get(OWN_ID) or self._session.context.ids.next()
        message["properties"]["delivery_tag"] = own_id
        try:
            self._publish(queue, message, own_id)
        except QueueNotFound:
            # The queue was deleted after this process declared it.
            self._queue(queue).create()
            self._publish(queue, message, own_id)

    def _publish(self, queue: str, message: dict[str, Any], own_id: str) -> None:
        self._queue(queue).publish(
            body_of(message),
            content_type="application/json",
            delay=delay_of(message),
            message_id=own_id,
        )

    def _lookup(
        self, exchange: str, routing_key: str, default: str | None = None
    ) -> list[str] | set[str]:
        """Return the queues for a message. Raises ChannelError for a task that no queue would get.
        Events, which go to topic exchanges, may have no listener."""
        found: list[str] | set[str] = super()._lookup(exchange, routing_key, default)
        kind = self.state.exchanges.get(exchange, {}).get("type", "direct")
        if not found and kind == "direct":
            raise ChannelError(
                f"no queue that this process has declared is bound to exchange {exchange!r} with "
                f"routing key {routing_key!r}; declare the queue, or send to it by its name",
                (50, 40), "Channel.basic_publish", "312",
            )  # fmt: skip
        return found

    # Consuming

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Callable[..., Any], consumer_tag: str,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().basic_consume(queue, no_ack, callback, consumer_tag, **kwargs)
        deliver = partial(
            self._deliver, no_ack=no_ack, on_payload=self.connection._callbacks[queue]
        )
        consumer = self._consumer(consumer_tag)
        self._receiver.consume(Consumption(consumer, parse_queue_name(queue), deliver))

    def basic_cancel(self, consumer_tag: str) -> None:
        self._receiver.cancel(self._consumer(consumer_tag))
        super().basic_cancel(consumer_tag)

    def _consumer(self, tag: str) -> str:
        """Return what a consumer is called in the inbox, which serves all channels."""
        return f"{self.channel_id}:{tag}"

    def basic_qos(
        self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False
    ) -> None:
        super().basic_qos(prefetch_size, prefetch_count, apply_global)
        self._prefetch.limit(prefetch_count)

    def _deliver(
        self, message: Message, no_ack: bool, on_payload: Callable[[dict[str, Any]], None]
    ) -> None:
        if message.is_lost:
            # Another consumer gets it.
            self._keeper.release(message)
            return
        payload = self._take(message, no_ack)
        with malformed_is_rejected(message, payload, self.basic_reject):
            on_payload(payload)

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        """Get a message for `basic_get`, which has no consumer and does not wait for one to come.
        Raises Empty."""
        self._keeper.wait_for_releases()
        message = self._queue(queue).receive(visibility=self._options.visibility_seconds)
        if message is None:
            raise Empty
        self._prefetch.use(1)
        self._keeper.hold(message)
        return self._take(message, no_ack=False)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        found = super().basic_get(queue, no_ack=no_ack, **kwargs)
        if found is not None and no_ack:
            self.basic_ack(found.delivery_tag)
        return found

    def _take(self, message: Message, no_ack: bool) -> dict[str, Any]:
        payload = payload_of(message)
        if no_ack:
            self._keeper.acknowledge(message)
        else:
            self._received[payload["properties"]["delivery_tag"]] = message
        return payload

    # Settling

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Remove a message under its lease, and with `multiple` all messages that were delivered
        before it."""
        for tag in self._up_to(delivery_tag) if multiple else [delivery_tag]:
            self._settle(tag, self._keeper.acknowledge)
            super().basic_ack(tag)

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Release a message at once, or make it a dead letter."""
        self._settle(delivery_tag, self._keeper.release if requeue else self._keeper.bury)
        super().basic_ack(delivery_tag)

    def _restore(self, message: Any) -> None:
        """Release a message that is unacknowledged when the channel is closed."""
        self._settle(message.delivery_tag, self._keeper.release)

    def _settle(self, tag: str, how: Callable[[Message], None]) -> None:
        message = self._received.pop(tag, None)
        if message is not None and self._pid == os.getpid():
            how(message)

    def _up_to(self, delivery_tag: str) -> list[str]:
        tags = list(self._received)
        return tags[: tags.index(delivery_tag) + 1] if delivery_tag in tags else [delivery_tag]

    def close(self) -> None:
        """Release what is unacknowledged, and wait up to some seconds for that."""
        if self._pid != os.getpid():
            self.closed = True
            return
        was_open = not self.closed
        super().close()
        if was_open:
            self._receiver.close()
            self._keeper.close()
