"""Batches: their lines, and how they go over the wire."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.support.processes import Server
from tests.support.wire import Wire, WireAnswer, files_of

NDJSON = "application/x-ndjson"

GOOD = b'{"body": "good"}\n'
BAD_LINES = {
    b"{": "JSON",
    b"nonsense": "JSON",
    b"[]": "object",
    b'"text"': "object",
    b"null": "object",
    b"{}": "'body' or 'body_base64'",
    b'{"body": "a", "body_base64": "YQ=="}': "one of them",
    b'{"body": 1}': "'body' must be a string",
    b'{"body": null}': "'body' must be a string",
    b'{"body": "\\ud800"}': "surrogate",
    b'{"body": "\xff"}': "UTF-8",
    b'{"body_base64": "Y"}': "base64",
    b'{"body_base64": "YQ"}': "base64",
    b'{"body_base64": "Y Q=="}': "base64",
    b'{"body_base64": "\xc3\xa9"}': "base64",
    b'{"body": "a", "body": "b"}': "member 'body' is given twice",
    b'{"body": "a", "properties": {"ce-id": "1", "ce-id": "2"}}': "member 'ce-id' is given twice",
    b'{"body": "a"} x': "it is not JSON: Extra data, at character 14 of the line",
    b'{"body": "a", "color": "red"}': "'color'",
    b'{"body": "a", "Body": "b"}': "'Body'",
    b'{"body": "a", "id": ""}': "message id",
    b'{"body": "a", "id": "a/b"}': "message id",
    b'{"body": "a", "id": 5}': "'id'",
    b'{"body": "a", "id": null}': "'id'",
    b'{"body": "a", "delay": -1}': "'delay'",
    b'{"body": "a", "delay": "5"}': "'delay'",
    b'{"body": "a", "delay": true}': "'delay'",
    b'{"body": "a", "delay": null}': "'delay'",
    b'{"body": "a", "delay": NaN}': "NaN",
    b'{"body": "a", "delay": 1e999}': "'delay'",
    b'{"body": "a", "delay": 31536001}': "'delay'",
    b'{"body": "a", "delay": ' + b"9" * 5000 + b"}": "a number in it has too many digits",
    b'{"body": "a", "content_type": "caf\xc3\xa9"}': "'content_type'",
    b'{"body": "a", "content_type": 1}': "'content_type'",
    b'{"body": ' + b"[" * 50_000 + b"}": "it is nested too deeply",
}
"""Lines that are no message, and what is said of each."""


def send(wire: Wire, queue: str, text: bytes, /, **headers: str) -> WireAnswer:
    return wire.request(
        "POST", f"/{queue}/messages?batch", text, **({"content_type": NDJSON} | headers)
    )


def send_lines(wire: Wire, queue: str, *lines: Any) -> WireAnswer:
    return send(wire, queue, b"".join(json.dumps(line).encode() + b"\n" for line in lines))


def answer_lines(answer: WireAnswer) -> list[dict[str, Any]]:
    assert answer.status in (200, 201), answer
    assert answer.headers["content-type"] == NDJSON
    return [json.loads(line) for line in answer.body.splitlines()]


def files_on_their_way(server: Server, queue: str) -> list[str]:
    """Return the files of a queue except those in `remove`, such as the set of a batch that was
    refused."""
    return [path for path in files_of(server, queue) if not path.startswith("remove/")]


def ids_of(answer: WireAnswer) -> list[str]:
    return [line["id"] for line in answer_lines(answer)]


def receive_all(wire: Wire, queue: str) -> list[WireAnswer]:
    found = []
    while (answer := wire.receive(queue)).status == 200:
        found.append(answer)
    return found


def lines_of(answer: WireAnswer) -> list[dict[str, Any]]:
    """Return the lines of a receive of many, or of a peek."""
    assert answer.status == 200
    assert answer.headers["content-type"] == NDJSON
    assert answer.headers["cache-control"] == "no-store, no-transform"
    assert answer.body.endswith(b"\n")
    return [json.loads(line) for line in answer.body.splitlines()]


def body_in(line: dict[str, Any]) -> bytes:
    if "body" in line:
        return str(line["body"]).encode()
    return base64.b64decode(line["body_base64"], validate=True)


def outcomes_in(answer: WireAnswer) -> list[dict[str, Any]]:
    """Return what became of each of several messages."""
    assert answer.status == 207
    assert answer.headers["content-type"] == NDJSON
    return [json.loads(line) for line in answer.body.splitlines()]
