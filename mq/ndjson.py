"""Messages as lines of JSON, for `export` and `import`.

    {"id": "...", "body": "two coffees", "content_type": "text/plain"}

A body that is no UTF-8 stands in base64 as `body_base64`. The form is that of a batch publish, so
every line of an export may stand in one.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, NamedTuple

from mq.config import DEFAULT_CONTENT_TYPE, MAX_CONTENT_TYPE_BYTES, MAX_DELAY_SECONDS
from mq.errors import InvalidRequest

_UNUSED = {"state", "lease", "receive_count", "published_at", "visible_at", "damaged", "length"}
"""What `mqctl recv --json`, `peek --json` and a fetch of many add: it belongs to where it was."""


class Line(NamedTuple):
    """One message. `content_type` None is the usual one, `delay_seconds` None is no delay."""

    body: bytes
    message_id: str | None = None
    content_type: str | None = None
    delay_seconds: float | None = None


def write_line(line: Line) -> bytes:
    """With its line end."""
    document: dict[str, object] = {}
    if line.message_id is not None:
        document["id"] = line.message_id
    try:
        document["body"] = line.body.decode()
    except UnicodeDecodeError:
        document["body_base64"] = base64.b64encode(line.body).decode()
    if line.content_type not in (None, DEFAULT_CONTENT_TYPE):
        document["content_type"] = line.content_type
    if line.delay_seconds is not None:
        document["delay"] = line.delay_seconds
    return json.dumps(document).encode() + b"\n"


def parse_line(text: bytes) -> Line:
    """Raises InvalidRequest."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidRequest("is no JSON object")
    body = _body_of(document)
    line = Line(
        body,
        _string(document, "id"),
        _content_type(document),
        _delay(document.pop("delay", None)),
    )
    unknown = sorted(document.keys() - _UNUSED)
    if unknown:
        raise InvalidRequest(f"has an unknown member {unknown[0]!r}")
    return line


def _body_of(document: dict[str, Any]) -> bytes:
    if ("body" in document) == ("body_base64" in document):
        raise InvalidRequest("has to have one of body and body_base64")
    try:
        if "body" in document:
            return str(_string(document, "body")).encode()
        return base64.b64decode(str(_string(document, "body_base64")), validate=True)
    except UnicodeEncodeError:
        raise InvalidRequest("has half a character in its body; use body_base64") from None
    except binascii.Error:
        raise InvalidRequest("has a body_base64 that is no base64") from None


def _string(document: dict[str, Any], name: str) -> str | None:
    if name not in document:
        return None
    value = document.pop(name)
    if not isinstance(value, str):
        raise InvalidRequest(f"has a member {name!r} that is no text")
    return value


def _content_type(document: dict[str, Any]) -> str | None:
    value = _string(document, "content_type")
    if value is None:
        return None
    if not 0 < len(value) <= MAX_CONTENT_TYPE_BYTES or not (
        value.isascii() and value.isprintable()
    ):
        raise InvalidRequest(
            f"has a content_type that is not 1 to {MAX_CONTENT_TYPE_BYTES} printable ASCII "
            "characters"
        )
    return value


def _delay(value: object) -> float | None:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= float(str(value)) <= MAX_DELAY_SECONDS:
        raise InvalidRequest(f"has a delay that is not 0 to {MAX_DELAY_SECONDS} seconds")
    return float(str(value))
