"""Requests of several messages each, to MQ's endpoints."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from mq.ctl.bench.endpoints import Endpoints

_ID = re.compile(rb'"id": ?"([^"]+)"')


def publish_batch(endpoints: Endpoints, bodies: Sequence[str]) -> bytes:
    lines = "".join(json.dumps({"body": body}) + "\n" for body in bodies)
    path = f"/{endpoints.queue}/messages?batch"
    return endpoints.request("POST", path, lines.encode(), "application/x-ndjson")


def receive_batch(endpoints: Endpoints, most: int) -> bytes:
    return endpoints.request("GET", f"/{endpoints.queue}/messages?max={most}")


def remove_batch(endpoints: Endpoints, message_ids: Sequence[bytes]) -> bytes:
    return endpoints.remove(b",".join(message_ids))


def ids_in(answer: bytes) -> list[bytes]:
    """Return the ids of the messages that were received."""
    return _ID.findall(answer)
