"""A client's operations, given answers in place of a server: no socket, no time."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from mq.client import NoAnswer
from mq.client.wire import ClientPause, Operation, Request, ServerAnswer
from mq.names import QueueName

ORDERS = QueueName("orders")
GONE = object()
"""In place of an answer: none came."""
UNSENT = object()
"""In place of an answer: there was no connection."""


def answer(status: int, body: bytes = b"", **headers: str) -> ServerAnswer:
    """Return an answer; `x_message_id=...` is the header `x-message-id`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ServerAnswer(status, "Reason", named, body, 0.0)


def problem(status: int, slug: str, **headers: str) -> ServerAnswer:
    document = {
        "type": f"urn:mq:problem:{slug}",
        "title": "Title",
        "status": status,
        "detail": f"why {slug}",
    }
    return answer(status, json.dumps(document).encode(), **headers)


BUSY = problem(503, "unavailable", retry_after="7")


COUNTS = answer(
    200, b'{"queue":"orders","ready":1,"leased":0,"delayed":0,"oldest_age_seconds":null}'
)


class PlayedClock:
    """Stands still but for pauses."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Played:
    """An operation that is given answers in turn, the last one again and again."""

    def __init__(self, operation: Operation[object], clock: PlayedClock, *answers: object) -> None:
        self.requests: list[Request] = []
        self.pauses: list[float] = []
        self.result: object = None
        told: ServerAnswer | None = None
        left = list(answers)
        try:
            step = next(operation)
            while True:
                if isinstance(step, ClientPause):
                    self.pauses.append(step.seconds)
                    clock.now += step.seconds
                    step = operation.send(None)
                    continue
                self.requests.append(step)
                given = left.pop(0) if len(left) > 1 else left[0]
                if given is GONE or given is UNSENT:
                    step = operation.throw(NoAnswer("gone", is_unsent=given is UNSENT))
                else:
                    assert isinstance(given, ServerAnswer)
                    told = given
                    if told.headers.get("x-message-id") == "echo":
                        told = answer(told.status, x_message_id=step.headers["X-Message-Id"])
                    elif told.body == b"echo":
                        told = told._replace(body=step.body)
                    step = operation.send(told)
        except StopIteration as done:
            self.result = done.value


def extended() -> ServerAnswer:
    """Return the answer to an extension."""
    return answer(200, x_visible_at=datetime.now(UTC).isoformat(), etag='"00c0ffee00c0ffee"')
