"""Tasks of Celery that no worker can read. Celery lets the error that each leads to end the worker,
and the next one that gets the task."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mq.client import Message

log = logging.getLogger("mq.kombu")

_ARGUMENTS = 3
"""What the body of a task of protocol 2 has: arguments by place, by name, and what comes after."""


@contextmanager
def malformed_is_rejected(
    message: Message, payload: Mapping[str, Any], reject: Callable[[str], object]
) -> Iterator[None]:
    """Reject the message if the block fails over a malformed task. Any other error is raised."""
    try:
        yield
    except Exception:
        if not is_malformed_task(payload):
            raise
        log.exception(
            "message %s of queue %s is not a task that Celery can read; it is rejected",
            message.id, message.queue,
        )  # fmt: skip
        reject(payload["properties"]["delivery_tag"])


def is_malformed_task(payload: Mapping[str, Any]) -> bool:
    """Return whether Celery surely fails to read a task.

    That is before it takes one of the places in its pool, which an error later would not give back.
    So other mistakes, as in a time limit, are not looked for.
    """
    headers = payload["headers"] or {}
    if "task" in headers:
        return not _can_be_read(headers) or not _can_be_arguments(payload)
    body = _json_body_of(payload)
    return isinstance(body, dict) and "task" in body and not _can_be_read(body)


def _can_be_read(fields: Mapping[str, Any]) -> bool:
    names = (fields["task"], fields.get("id"))
    times = (fields.get("eta"), fields.get("expires"))
    # Celery takes what is false for no time, and then looks for its zone.
    return (
        "id" in fields
        and not any(isinstance(each, list | dict) for each in names)
        and all(each is None or bool(each) for each in times)
    )


def _can_be_arguments(payload: Mapping[str, Any]) -> bool:
    """Return whether a body may be that of a task of protocol 2. Only JSON is looked at, unless it
    is compressed."""
    if payload["headers"].get("compression") or payload.get("content-type") != "application/json":
        return True
    body = _json_body_of(payload)
    return isinstance(body, list | str | dict) and (len(body) == _ARGUMENTS or "args" in body)


def _json_body_of(payload: Mapping[str, Any]) -> Any:
    """Return what the body of a message says, or None if it is not JSON."""
    body = payload["body"]
    if payload["properties"].get("body_encoding") == "base64":
        body = base64.b64decode(body)
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
