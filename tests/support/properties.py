"""Messages with properties, as a client of HTTP publishes and gets them."""

from __future__ import annotations

from tests.support.wire import Wire, WireAnswer

PROPERTIES = {
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate": "vendor=value",
    "baggage": "user=alice;ttl=3",
    "content-encoding": "gzip",
    "content-language": "de, en",
    "ce-type": "com.example.coffee",
    "x-meta-shop": 'north "1" {\\}',
}


def publish(
    wire: Wire, queue: str, body: bytes = b"body", properties: dict[str, str] = PROPERTIES,
    target: str = "",
) -> WireAnswer:  # fmt: skip
    """Publish a message with properties under exactly these names."""
    lines = [f"POST /{queue}/messages{target} HTTP/1.1", "Host: mq", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in properties.items()]
    wire.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
    return wire.answer()


def properties_of(answer: WireAnswer) -> dict[str, str]:
    known = ("ce-", "x-meta-", "trace", "baggage", "content-encoding", "content-language")
    return {name: value for name, value in answer.headers.items() if name.startswith(known)}
