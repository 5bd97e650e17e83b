"""Messages as lines of JSON, `application/x-ndjson`:

    {"id": "...", "content_type": "text/plain", "body": "two coffees"}
    {"properties": {"x-meta-shop": "north"}, "body": "three"}

A body that is not UTF-8 is in base64, as `body_base64`. A batch, a receive or peek of many,
`export` and `import` all have this form, so each can read what another one wrote.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from io import BytesIO
from json.encoder import encode_basestring
from typing import Any, NamedTuple, NoReturn, TypeVar

from mq.config import KIB, MAX_CONTENT_TYPE_BYTES, MAX_DELAY_SECONDS
from mq.errors import InvalidName, InvalidRequest, shown
from mq.names import MessageId, QueueName, parse_message_id, parse_queue_name
from mq.properties import NO_PROPERTIES, Properties, check_properties

N = TypeVar("N")

MEDIA_TYPE = "application/x-ndjson"

JSON_SPACE = b" \t\r\n"
"""What may surround the object in a line; `bytes.strip` would take more (RFC 8259, section 2)."""

MAX_BARE_CHARACTERS = 64 * KIB
"""How many characters a line may have outside of its strings. Of a list of empty objects json makes
thirty bytes for each, and it holds up all other threads meanwhile."""

_ENCODER = json.JSONEncoder(ensure_ascii=False)

_MEMBERS = frozenset({"body", "body_base64", "id", "delay", "content_type", "properties", "queue"})

_TAIL = b'"}\n'


class Line(NamedTuple):
    """A message to publish. `content_type` None means the default type, `delay_seconds` None the
    delay that the queue's settings say, `queue` None that of the others in its batch."""

    body: bytes
    message_id: MessageId | None = None
    content_type: str | None = None
    delay_seconds: float | None = None
    properties: Properties = NO_PROPERTIES
    queue: QueueName | None = None


def write_line(fields: Mapping[str, object], body: bytes) -> bytes:
    """Return one message as a line with its newline. Members of `fields` that are None are left
    out."""
    return end_line(write_members(fields), body)


def write_members(fields: Mapping[str, object]) -> str:
    """Return members of a line, with a comma after each. Those that are None are left out."""
    return "".join(
        [f"{_member(name, value)}, " for name, value in fields.items() if value is not None]
    )


def end_line(members: str, body: bytes) -> bytes:
    """Return a line with these members, as `write_members` writes them, and the body."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return end_line_in_base64(members, body)
    return f'{{{members}"body": {encode_basestring(text)}}}\n'.encode()


def end_line_in_base64(members: str, body: bytes) -> bytes:
    """Return the line with the body in base64, whatever it is."""
    return f'{{{members}"body_base64": "{b64encode(body).decode()}"}}\n'.encode()


def _member(name: str, value: object) -> str:
    """Return a member of an object as json writes it, in less than half of the time for the values
    that are usual here. The name needs no escapes."""
    if type(value) is str:
        return f'"{name}": {encode_basestring(value)}'
    return f'"{name}": {value if type(value) is int else _ENCODER.encode(value)}'


def body_member(body: bytes | bytearray) -> dict[str, str]:
    """Return the member `body`, or `body_base64` for a body that is not UTF-8."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": b64encode(body).decode()}


class LongLine:
    """A line whose body is never whole in memory, and always in base64; `members` as for
    `end_line`."""

    def __init__(self, members: str, body_length: int) -> None:
        self._head = f'{{{members}"body_base64": "'.encode()
        self.length = len(self._head) + 4 * (-(-body_length // 3)) + len(_TAIL)

    async def chunks(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the pieces of the line, `length` bytes in all, made of the body's chunks."""
        yield self._head
        rest = b""
        async for chunk in body:
            data = rest + chunk
            whole = len(data) - len(data) % 3
            rest = data[whole:]
            yield b64encode(data[:whole])
        yield b64encode(rest) + _TAIL


def numbered_lines(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not white space alone, without what surrounds them, each with its
    number, counted from 1."""
    for number, line in enumerate(BytesIO(text), 1):
        stripped = line.strip(JSON_SPACE)
        if stripped:
            yield number, stripped


def parse_line(text: bytes, passed_over: Collection[str] = ()) -> Line:
    """Parse a message to publish. Members in `passed_over` are ignored; any other member that a
    batch does not know is refused. Raises InvalidRequest, which says what is wrong."""
    members = _parse_object(text)
    body = members.get("body")
    if len(members) == 1 and isinstance(body, str) and body.isascii():  # As in most lines.
        return Line(body.encode())
    for name in members:
        if name not in _MEMBERS and name not in passed_over:
            known = ", ".join(sorted(_MEMBERS))
            _refuse(f"unknown member {shown(name)}; a line takes {known}")
    return Line(
        body_of(members),
        _name(members, "id", parse_message_id),
        _content_type(members),
        _delay(members),
        _properties(members) if "properties" in members else NO_PROPERTIES,
        _name(members, "queue", parse_queue_name),
    )


def body_of(members: Mapping[str, Any]) -> bytes:
    """Return the body in a line that was read. Raises InvalidRequest."""
    if ("body" in members) == ("body_base64" in members):
        _refuse("give 'body' or 'body_base64', one of them")
    name = "body" if "body" in members else "body_base64"
    text = members[name]
    if not isinstance(text, str):
        _refuse(f"{name!r} must be a string")
    try:
        return text.encode() if name == "body" else b64decode(text, validate=True)
    except UnicodeEncodeError:
        _refuse("'body' has half of a surrogate pair; send bytes as 'body_base64'")
    except ValueError as error:
        _refuse(f"'body_base64' must be base64: {error}")


def is_content_type(text: str) -> bool:
    """Return whether the text can be kept as a message's type."""
    return len(text) <= MAX_CONTENT_TYPE_BYTES and text.isascii() and text.isprintable()


def _parse_object(text: bytes) -> dict[str, Any]:
    try:
        line = text.strip(JSON_SPACE).decode()
        if len(line) > MAX_BARE_CHARACTERS:
            _refuse_bare(line)
        # This is what decode() does, except that it looks for white space twice.
        found, end = _DECODER.raw_decode(line)
        if end != len(line):
            raise json.JSONDecodeError("Extra data", line, end)
    except UnicodeDecodeError:
        _refuse("it is not UTF-8")
    except json.JSONDecodeError as error:
        _refuse(f"it is not JSON: {error.msg}, at character {error.colno} of the line")
    except RecursionError:
        _refuse("it is nested too deeply")
    except ValueError:
        _refuse("a number in it has too many digits")
    if not isinstance(found, dict):
        _refuse('it must be an object; write it like {"body": "text"}')
    return found


def _refuse_bare(line: str) -> None:
    """Refuse a line with more than MAX_BARE_CHARACTERS, or raise JSONDecodeError for a string in
    it."""
    bare = at = 0
    while bare <= MAX_BARE_CHARACTERS:
        quote = line.find('"', at)
        if quote < 0:
            bare += len(line) - at
            break
        # JSON has something between two strings. One right behind another counts all the same.
        bare += max(1, quote - at)
        _, at = _DECODER.raw_decode(line, quote)
    if bare > MAX_BARE_CHARACTERS:
        _refuse(f"it has more than {MAX_BARE_CHARACTERS} characters outside of its strings")


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen = set[str]()
        for name, _ in pairs:
            if name in seen:
                _refuse(f"member {shown(name)} is given twice; give it once")
            seen.add(name)
    return members


def _refuse_constant(name: str) -> NoReturn:
    _refuse(f"{name} is not JSON")


# One decoder and one encoder for all lines: json.loads() and json.dumps() with options make a new
# one for each call.
_DECODER = json.JSONDecoder(object_pairs_hook=_once_each, parse_constant=_refuse_constant)


def _name(members: Mapping[str, Any], member: str, parse: Callable[[str], N]) -> N | None:
    if member not in members:
        return None
    if not isinstance(members[member], str):
        _refuse(f"{member!r} must be a string")
    try:
        return parse(members[member])
    except InvalidName as error:
        _refuse(f"{member!r}: {error}")


def _delay(members: Mapping[str, Any]) -> float | None:
    if "delay" not in members:
        return None
    seconds = members["delay"]
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= MAX_DELAY_SECONDS or not math.isfinite(seconds):
        _refuse(f"'delay' must be a number of seconds from 0 to {MAX_DELAY_SECONDS}")
    return float(seconds)


def _content_type(members: Mapping[str, Any]) -> str | None:
    text = members.get("content_type")
    if "content_type" in members and not (isinstance(text, str) and is_content_type(text)):
        _refuse(
            f"'content_type' may have at most {MAX_CONTENT_TYPE_BYTES} printable ASCII characters"
        )
    return text or None


def _properties(members: Mapping[str, Any]) -> Properties:
    given = members["properties"]
    if not isinstance(given, dict):
        _refuse("'properties' must be an object of strings")
    for name, value in given.items():
        if not isinstance(value, str):
            _refuse(f"property {shown(name)} must be a string")
    return check_properties(given.items())


def _refuse(why: str) -> NoReturn:
    raise InvalidRequest(why)
