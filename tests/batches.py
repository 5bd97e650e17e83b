"""Batches over the wire."""

from __future__ import annotations

import json
from typing import Any

from tests.conftest import Server
from tests.contract.conftest import (
    Answer,
    Wire,
    files_of,
)

NDJSON = "application/x-ndjson"


def send(wire: Wire, queue: str, text: bytes, /, **headers: str) -> Answer:
    return wire.request(
        "POST", f"/{queue}/messages?batch", text, **({"content_type": NDJSON} | headers)
    )


def send_lines(wire: Wire, queue: str, *lines: Any) -> Answer:
    return send(wire, queue, b"".join(json.dumps(line).encode() + b"\n" for line in lines))


def answer_lines(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status in (200, 201), answer
    assert answer.headers["content-type"] == NDJSON
    return [json.loads(line) for line in answer.body.splitlines()]


def files_on_their_way(server: Server, queue: str) -> list[str]:
    """Without what the reaper is about to take: the set of a batch that was refused."""
    return [path for path in files_of(server, queue) if not path.startswith("remove/")]


def ids_of(answer: Answer) -> list[str]:
    return [line["id"] for line in answer_lines(answer)]


def receive_all(wire: Wire, queue: str) -> list[Answer]:
    found = []
    while (answer := wire.receive(queue)).status == 200:
        found.append(answer)
    return found
