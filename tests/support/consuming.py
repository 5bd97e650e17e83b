"""What a test publishes and consumes through kombu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kombu import Connection, Consumer, Queue

from mq.client import Client, Message
from tests.support.processes import Server, wait_until
from tests.support.scraping import scrape

Connect = Callable[..., Connection]


def publish(connection: Connection, queue: str, *bodies: object, **properties: object) -> None:
    producer = connection.Producer()
    for body in bodies:
        producer.publish(body, routing_key=queue, declare=[Queue(queue)], **properties)


def ready(client: Client, queue: str) -> int:
    return client.queue(queue).counts().ready


def leased(client: Client, queue: str) -> int:
    return client.queue(queue).counts().leased


def requests(server: Server) -> float:
    """Return how many requests a server has answered, whose metrics are served."""
    answered = scrape(server.admin_port).by("mq_http_request_duration_seconds_count", "code")
    return sum(answered.values())


class Consumed:
    """Collects the messages of queues on a channel of its own, without acknowledging them."""

    def __init__(
        self, connection: Connection, *queues: str, prefetch: int = 0, no_ack: bool = False
    ) -> None:
        self.connection = connection
        self.messages: list[Any] = []
        self.channel = connection.channel()
        self.channel.basic_qos(0, prefetch, False)
        self.consumer = Consumer(
            self.channel,
            [Queue(name) for name in queues],
            on_message=self.messages.append,
            no_ack=no_ack,
        )
        self.consumer.consume()

    def held(self, number: int) -> Message:
        """Return the message of the client behind one of these."""
        message: Message = self.channel._received[self.messages[number].delivery_tag]
        return message

    def bodies(self) -> list[Any]:
        return [message.decode() for message in self.messages]

    def drain(self, until: Callable[[], object]) -> None:
        """Deliver what comes until the condition holds."""

        def holds() -> object:
            try:
                self.connection.drain_events(timeout=0.05)
            except TimeoutError:
                pass
            return until()

        wait_until(holds)

    def drain_count(self, count: int) -> None:
        self.drain(lambda: len(self.messages) >= count)
