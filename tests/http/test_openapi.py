"""What generated clients read in the OpenAPI document about answers that random requests rarely
get: of queues with notes, of delayed messages, of batches and of moves."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
from jsonschema_rs import validator_for

from mq.web.problems import PROBLEMS, TYPE_PREFIX
from tests.support.processes import Server, wait_until
from tests.support.wire import Wire, WireAnswer, make_queue

DOCUMENT = json.loads(files("mq.web").joinpath("openapi.json").read_text())
NDJSON, JSON = "application/x-ndjson", "application/json"


def documented(path: str, method: str, answer: WireAnswer) -> dict[str, Any]:
    """What the document says of answers with this status."""
    found: dict[str, Any] = DOCUMENT["paths"][path][method]["responses"][str(answer.status)]
    return found


def require_schema(path: str, method: str, answer: WireAnswer) -> None:
    """Check each line of the body, which has the media type that the document names."""
    content = documented(path, method, answer)["content"][answer.headers["content-type"]]
    # References lead to the components of the document.
    check = validator_for({**content["schema"], "components": DOCUMENT["components"]})
    for line in answer.body.splitlines():
        check.validate(json.loads(line))


def test_settings_may_have_notes_of_a_gateway(server: Server, wire: Wire, queue: str) -> None:
    wire.request("PUT", f"/{queue}?visibility=60")
    with (server.root / "queues" / queue / ".settings").open("a") as settings:
        settings.write("sqs.wait=20\n")

    wait_until(lambda: "sqs.wait" in wire.request("GET", f"/{queue}").json()["settings"])
    require_schema("/{queue}", "get", wire.request("GET", f"/{queue}"))


def test_each_header_of_a_publish_is_documented(wire: Wire, queue: str) -> None:
    usual = wire.request("GET", f"/{queue}").headers.keys()

    for status in (201, 200):
        answer = wire.request("POST", f"/{queue}/messages?delay=900", b"body", x_message_id="own")
        assert answer.status == status
        headers = documented("/{queue}/messages", "post", answer)["headers"]
        assert answer.headers.keys() - usual <= {name.lower() for name in headers}
        assert "x-visible-at" in answer.headers or status == 200


def test_each_line_for_a_batch_is_documented(wire: Wire, queue: str) -> None:
    lines = b'{"body": "one", "id": "own"}\n{"body": "two", "id": "late", "delay": 900}\n'

    for status, more in ((201, b""), (201, b'{"body": "new"}'), (200, b"")):
        target = f"/{queue}/messages?batch"
        answer = wire.request("POST", target, lines + more, content_type=NDJSON)
        assert answer.status == status
        require_schema("/{queue}/messages", "post", answer)


def test_what_a_move_says_is_documented(wire: Wire, queue: str) -> None:
    other = make_queue(wire)
    for each in (queue, other):
        wire.publish(each, b"body", x_message_id="own")

    answer = wire.request("POST", f"/{other}/messages?from={queue}", b"")

    assert answer.json() == {"moved": 0, "taken": ["own"]}
    require_schema("/{queue}/messages", "post", answer)


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=lambda problem: problem.slug)
def test_each_problem_is_documented(problem: Any) -> None:
    known = DOCUMENT["components"]["schemas"]["Problem"]["properties"]["type"]["enum"]

    assert TYPE_PREFIX + problem.slug in known
