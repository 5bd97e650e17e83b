"""Make messages of MQ from what kombu wants to publish, and back."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kombu.utils.json import dumps, loads

from mq.client import Message
from mq.config import MAX_DELAY_SECONDS

OWN_ID = "mq_id"
"""The property that keeps a message's id while kombu tries to publish it again. It is not sent."""

_NO_PRIORITY = (
    "MQ has no priorities: use a queue for each, and the transport option queue_order_strategy"
)
_REFUSED_PROPERTIES = {
    "priority": _NO_PRIORITY,
    "expiration": "a message of MQ has no time to live; Celery's `expires` works, and the setting "
    "ttl of the queue",
}
_REFUSED_ARGUMENTS = {
    "x-max-priority": _NO_PRIORITY,
    "x-expires": "MQ deletes no queue by itself",
    "x-message-ttl": "give the queue the setting ttl (mqctl set)",
    "x-max-length": "MQ drops no message; the setting max-messages refuses new ones",
    "x-max-length-bytes": "MQ drops no message; the setting max-messages refuses new ones",
    "x-dead-letter-exchange": "give the queue the setting dead-letters (mqctl set)",
    "x-dead-letter-routing-key": "give the queue the setting dead-letters (mqctl set)",
}

_OF_PROTOCOL_1 = {"task", "id", "args", "kwargs", "retries", "eta", "expires", "utc"}
"""What the body of a task of Celery's protocol 1 has, among others; one with fewer of these is of
another program."""


def refuse_properties(message: Mapping[str, Any]) -> None:
    """Raise ValueError for properties that would have no effect. Priority 0 counts as none. To a
    task with `expires` Celery adds `expiration`, for brokers that drop messages; it is left out,
    because the worker looks at `expires`."""
    properties = message["properties"]
    if properties.get("expiration") and _headers_of(message).get("expires"):
        del properties["expiration"]
    for name, way_out in _REFUSED_PROPERTIES.items():
        if properties.get(name):
            raise ValueError(f"{name}={properties[name]!r} of a message: {way_out}")


def refuse_arguments(queue: str, arguments: Mapping[str, Any], auto_delete: bool) -> None:
    """Raise ValueError for arguments of a declaration that would have no effect."""
    if auto_delete:
        raise ValueError(
            f"queue {queue} is declared with auto_delete: MQ deletes no queue by itself. Declare "
            f"it without. Remote control (celery inspect, celery control), events and results by "
            f"rpc:// need such queues and do not work with MQ; use another result backend"
        )
    for name, value in arguments.items():
        way_out = _REFUSED_ARGUMENTS.get(name)
        if way_out is not None:
            raise ValueError(f"argument {name}={value!r} of queue {queue}: {way_out}")


def delay_of(message: Mapping[str, Any], now: datetime | None = None) -> float | None:
    """Return how many seconds a message is hidden: as the property `delay_seconds` says, or until
    Celery's `eta`. None leaves it to the queue's settings. Raises ValueError."""
    given = message["properties"].get("delay_seconds")
    if given is not None:
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise ValueError(
                f"delay_seconds={given!r} of a message: give seconds, such as 30 or 0.5"
            )
        if not 0 <= given <= MAX_DELAY_SECONDS:
            raise ValueError(f"delay_seconds={given!r} of a message: give 0 to {MAX_DELAY_SECONDS}")
        return float(given)
    eta = _time_of(_headers_of(message).get("eta"))
    if eta is None:
        return None
    seconds = (eta - (now or datetime.now(UTC))).total_seconds()
    # A task that is due later is delivered after a year, and the worker holds it from then on.
    return min(max(seconds, 0.0), float(MAX_DELAY_SECONDS))


def _headers_of(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the headers of a message. A task of Celery's protocol 1 has them in its body, where
    they are found if that is plain JSON."""
    headers: Mapping[str, Any] = message.get("headers") or {}
    if "task" in headers or message.get("content-type") != "application/json":
        return headers
    body = message["body"]
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
    if '"eta"' not in text:
        return headers
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return headers
    return found if isinstance(found, dict) and found.keys() >= _OF_PROTOCOL_1 else headers


def _time_of(eta: object) -> datetime | None:
    """Return a time, or None if it has no zone: then only the worker knows what is meant."""
    if not isinstance(eta, str):
        return None
    try:
        time = datetime.fromisoformat(eta)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


def body_of(message: Mapping[str, Any]) -> str:
    """Return the body as JSON. It is the same for the same message, so that it can be published
    again."""
    hidden = {OWN_ID, "delay_seconds"}
    properties = {name: v for name, v in message["properties"].items() if name not in hidden}
    text: str = dumps({**message, "properties": properties})
    return text


def payload_of(message: Message) -> dict[str, Any]:
    """Return what a message is to kombu, under a delivery tag for this receive alone. A message
    that kombu did not write, published with curl for example, is all body."""
    payload = _written_by_kombu(message.body) or {
        "body": base64.b64encode(message.body).decode(),
        "content-type": message.content_type,
        "content-encoding": "utf-8" if _is_text(message.content_type) else "binary",
        "headers": {},
        "properties": {"body_encoding": "base64", "delivery_info": {}},
    }
    properties = payload["properties"]
    properties["delivery_tag"] = f"{message.id}:{message.lease}"
    properties["delivery_info"]["redelivered"] = (message.receive_count or 1) > 1
    return payload


def _written_by_kombu(body: bytes) -> dict[str, Any] | None:
    try:
        found = loads(body)
    except Exception:
        # Each type that kombu restores, a Decimal for example, has errors of its own.
        return None
    if not isinstance(found, dict) or not {"body", "headers", "properties"} <= found.keys():
        return None
    headers, properties = found["headers"], found["properties"]
    is_ours = (
        isinstance(headers, dict | None)
        and isinstance(properties, dict)
        and isinstance(properties.get("delivery_info"), dict)
        and isinstance(found.get("content-type"), str | None)
        and isinstance(found.get("content-encoding"), str | None)
        and _can_be_decoded(found["body"], properties.get("body_encoding"))
    )
    return found if is_ours else None


def _can_be_decoded(body: object, encoding: object) -> bool:
    """Return whether kombu can decode a body. An error there would end the worker."""
    if not isinstance(body, str):
        return False
    if encoding != "base64":
        return not encoding or (isinstance(encoding, str) and encoding.lower() == "utf-8")
    try:
        base64.b64decode(body.encode())
    except ValueError:
        return False
    return True


def _is_text(content_type: str) -> bool:
    return content_type.startswith(("text/", "application/json"))
