"""Calls of SQS in JSON as bytes: what an SDK would change on their way is as it is here."""

from __future__ import annotations

import json
from typing import Any

from tests.support.processes import Server
from tests.support.wire import Wire

CLOSE = b"Connection: close"
"""A request that closes the connection is never answered the quick way."""


def request_of(values: dict[str, Any], *more: bytes, operation: bytes = b"SendMessage") -> bytes:
    """Return the bytes of a call; `more` are header lines."""
    body = json.dumps(values).encode()
    head = [b"POST / HTTP/1.1", b"Host: localhost", b"X-Amz-Target: AmazonSQS." + operation,
            b"Content-Length: %d" % len(body), *more, b"", body]  # fmt: skip
    return b"\r\n".join(head[:-1]) + b"\r\n" + body


def ask(gateway: Server, operation: bytes, values: dict[str, Any], *more: bytes) -> Any:
    """Return status and values of the answer to a call on a connection of its own."""
    wire = Wire(gateway.port)
    wire.send(request_of(values, *more, operation=operation))
    answer = wire.answer("POST")
    wire.close()
    return answer.status, answer.json()
