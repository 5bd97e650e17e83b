"""One trace from the producer through the queue to the worker, with OpenTelemetry.

    pip install opentelemetry-sdk
    python examples/opentelemetry_trace.py

The header `traceparent` is a property of the message: it stays with it in the queue, through
redelivery, dead letters and moves, and comes back with each receive. The program publishes and
handles one order, and prints both spans as JSON; to see them elsewhere, give the provider another
exporter.
"""

from __future__ import annotations

from opentelemetry.propagate import extract, inject
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.trace import SpanKind, Tracer

from mq.client import Client, Message, Queue


def publish(tracer: Tracer, queue: Queue, body: str) -> None:
    names = {"messaging.system": "mq", "messaging.destination.name": queue.name}
    with tracer.start_as_current_span(f"send {queue.name}", kind=SpanKind.PRODUCER) as span:
        context: dict[str, str] = {}
        inject(context)  # traceparent, and tracestate and baggage if there are some
        message_id = queue.publish(body, properties=context)
        span.set_attributes({**names, "messaging.message.id": message_id})


def handle(tracer: Tracer, message: Message) -> None:
    names = {"messaging.system": "mq", "messaging.destination.name": message.queue}
    with tracer.start_as_current_span(
        f"process {message.queue}",
        context=extract(message.properties),
        kind=SpanKind.CONSUMER,
        attributes={**names, "messaging.message.id": message.id},
    ):
        message.ack()


def main() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    tracer = provider.get_tracer("orders")
    with Client() as mq:
        orders = mq.queue("orders")
        orders.create()
        publish(tracer, orders, "two coffees")
        message = orders.receive(wait=20)
        if message is not None:
            handle(tracer, message)
    provider.shutdown()


if __name__ == "__main__":
    main()
