"""CloudEvents in both modes of their HTTP binding, with the package of the CloudEvents project.

    pip install cloudevents
    python examples/cloudevents_orders.py

In binary mode the attributes are headers, `ce-type` and so on, which are properties of the message;
in structured mode the whole event is the body. What receives tells them apart by `Content-Type`. So
anything that sends CloudEvents over HTTP can send them to `/orders/messages` directly.
"""

from __future__ import annotations

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings import http
from cloudevents.core.v1.event import CloudEvent

from mq.client import Client, Message, Queue


def order(item: str) -> CloudEvent:
    attributes = {
        "type": "org.example.order",
        "source": "/till/1",
        "subject": item,
        "datacontenttype": "application/json",
    }
    return CloudEvent(attributes=attributes, data={"item": item})


def publish(queue: Queue, sent: http.HTTPMessage) -> None:
    headers = dict(sent.headers)
    content_type = headers.pop("content-type")
    queue.publish(sent.body, content_type=content_type, properties=headers)


def event_of(message: Message) -> BaseCloudEvent:
    headers = {"content-type": message.content_type, **message.properties}
    return http.from_http_event(http.HTTPMessage(headers, message.body))


def main() -> None:
    with Client() as mq:
        orders = mq.queue("orders")
        orders.create()
        publish(orders, http.to_binary_event(order("two coffees")))
        publish(orders, http.to_structured_event(order("ein Stück Kuchen")))
        for message in orders.messages(wait=0):
            with message:
                event = event_of(message)
                print(event.get_type(), event.get_subject(), event.get_data())


if __name__ == "__main__":
    main()
