"""The target, the query parameters and the preconditions of a request, checked."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import NamedTuple, Protocol
from urllib.parse import parse_qsl

from aiohttp import web
from multidict import CIMultiDictProxy

from mq.config import MAX_CONTENT_TYPE_BYTES, MAX_MOVES, MAX_QUEUES
from mq.errors import InvalidRequest
from mq.lines.ndjson import is_content_type
from mq.names import MessageId, QueueName, parse_message_id, parse_queue_name
from mq.store.by_id import Guard
from mq.store.removing.remove_under_lease import Removed
from mq.times import seconds_in

_MOST_PARAMETERS = 32

HEADER_SPACE = " \t"
"""What may surround the value of a header (RFC 9110, section 5.6.3). Anything else is part of it:
`str.strip` would take spaces of other alphabets too."""

_EMPTY_ELEMENTS = " \t,"
"""Empty elements of a list, which are ignored (RFC 9110, section 5.6.1)."""

_ENTITY_TAG = re.compile(r'(W/)?"([^"]*)"[ \t]*(?:,[ \t,]*|$)')
_LEASE = re.compile(r"[0-9a-f]{16}")
_COUNT = re.compile(r"[0-9]{1,9}")


class Head(Protocol):
    """The head of a request: a `web.BaseRequest`, or less than one."""

    @property
    def headers(self) -> CIMultiDictProxy[str]: ...

    @property
    def transport(self) -> asyncio.Transport | None: ...


class BareHead(NamedTuple):
    """A head of which no more than this is known."""

    headers: CIMultiDictProxy[str]
    transport: asyncio.Transport | None = None


class Target(NamedTuple):
    """The target of a request: a checked queue name, the id as it came, the parameters.
    `require_allowed` raises Forbidden if the request may not do the same with another queue."""

    queue: QueueName
    message_id: str
    parameters: dict[str, str]
    require_allowed: Callable[[QueueName], object]


def path_and_query(request: web.BaseRequest) -> str:
    """Return what a request asks for as it came, without the host that proxies put before it in the
    absolute form (RFC 9112, section 3.2.2)."""
    raw_path = request.raw_path
    return raw_path if raw_path.startswith("/") else request.rel_url.raw_path_qs


def read_parameters(
    query: str, known: frozenset[str] | None, lists: frozenset[str] = frozenset()
) -> dict[str, str]:
    """Return the query's parameters. Those in `lists` may be given more than once; their values are
    joined by commas. Raises InvalidRequest for an unknown or repeated one."""
    if not query or known is None:
        return {}
    most = _MOST_PARAMETERS + (MAX_MOVES if lists else 0)
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=most)
    except ValueError as error:
        raise InvalidRequest(f"the query cannot be read: {error}") from None
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        if name not in known:
            takes = ", ".join(sorted(known)) or "none"
            raise InvalidRequest(f"unknown parameter {name!r}; this endpoint takes {takes}")
        if name in values and name not in lists:
            raise InvalidRequest(f"parameter {name!r} is given twice; give it once")
        values.setdefault(name, []).append(value)
    return {name: ",".join(several) for name, several in values.items()}


def read_queues(
    parameters: dict[str, str], name: str, first: QueueName
) -> tuple[QueueName, ...] | None:
    """Return the queues that a parameter names besides the first, or None if it is not given.
    Raises InvalidName, InvalidRequest."""
    text = parameters.get(name)
    if text is None:
        return None
    queues = dict.fromkeys([first, *map(parse_queue_name, text.split(","))])
    if len(queues) > MAX_QUEUES:
        raise InvalidRequest(f"{len(queues)} queues; one request may name at most {MAX_QUEUES}")
    return tuple(queues)[1:]


def read_seconds(
    parameters: dict[str, str], name: str, most: float, is_zero_allowed: bool = True
) -> float | None:
    """Return a parameter in seconds up to `most`, or None if it is not given. Raises
    InvalidRequest."""
    text = parameters.get(name)
    if text is None:
        return None
    seconds = seconds_in(text)
    if seconds is not None and seconds <= most and (seconds > 0 or is_zero_allowed):
        return seconds
    least = "0" if is_zero_allowed else "above 0"
    raise InvalidRequest(
        f"parameter {name}={text!r}: give seconds, {least} to {most:.0f}, such as 30 or 0.5"
    )


def read_count(parameters: dict[str, str], name: str, most: int) -> int | None:
    """Return a parameter that is a number from 1 to `most`, or None if it is not given. Raises
    InvalidRequest."""
    text = parameters.get(name)
    if text is None:
        return None
    if _COUNT.fullmatch(text) and 1 <= int(text) <= most:
        return int(text)
    raise InvalidRequest(f"parameter {name}={text!r}: give a whole number, 1 to {most}")


def read_flag(parameters: dict[str, str], name: str) -> bool:
    """Return whether a parameter without a value is given. Raises InvalidRequest if it has one."""
    text = parameters.get(name)
    if text:
        raise InvalidRequest(f"parameter {name}={text!r}: it takes no value; write ?{name}")
    return text is not None


def refuse_together(parameters: dict[str, str], name: str, *others: str) -> None:
    """Raise InvalidRequest if one of `others` is given together with the parameter `name`."""
    for other in others:
        if name in parameters and other in parameters:
            raise InvalidRequest(f"parameters {name!r} and {other!r} do not go together; drop one")


def read_guard(request: Head) -> Guard | None:
    """Return If-Match as a condition on the current lease, or None without that header."""
    if "If-Match" not in request.headers:
        return None
    leases = read_leases(request)
    return Guard(frozenset(), is_any=True) if leases is None else Guard(leases)


def refuse_guard(request: Head) -> None:
    """Raise InvalidRequest for an If-Match without an id: a heartbeat that lacks one would take
    another message."""
    if "If-Match" in request.headers:
        raise InvalidRequest("header If-Match: a lease belongs to a message; name it with 'id'")


def read_leases(request: Head) -> frozenset[int] | None:
    """Return the leases in If-Match (RFC 9110, section 13.1.1), or None for `*` and without it.

    A tag that is not a lease of MQ, or a weak one, matches nothing.
    """
    values = request.headers.getall("If-Match", [])
    text = ",".join(values)
    if not values or text.strip(HEADER_SPACE) == "*":
        return None
    rest = text.strip(_EMPTY_ELEMENTS)
    leases = set()
    while tag := _ENTITY_TAG.match(rest):
        if tag[1] is None and _LEASE.fullmatch(tag[2]) and int(tag[2], 16):
            leases.add(int(tag[2], 16))
        rest = rest[tag.end() :]
        if not rest:
            return frozenset(leases)
    raise InvalidRequest(
        f"header If-Match {text!r}: give the ETag as it came, quotes included; "
        "separate several by commas"
    )


def read_removes(request: Head, target: Target, name: str) -> Removed:
    """Return the message `QUEUE/ID` that a parameter names and the leases in If-Match, or None if
    it is not given. Raises InvalidRequest, InvalidName, Forbidden."""
    text = target.parameters.get(name)
    if text is None:
        return None
    queue, slash, message_id = text.partition("/")
    if not slash:
        raise InvalidRequest(f"parameter {name}={text!r}: give the message as QUEUE/ID")
    asked = parse_queue_name(queue), parse_message_id(message_id)
    target.require_allowed(asked[0])
    leases = read_leases(request)
    if leases is None:
        raise InvalidRequest(
            f"parameter {name!r} needs the header If-Match: give the ETag that the message was "
            "received with"
        )
    return *asked, leases


def read_own_id(request: Head) -> MessageId | None:
    """Return the producer's own id, or None if there is none. Raises InvalidName,
    InvalidRequest."""
    value = _read_once(request, "X-Message-Id")
    return None if value is None else parse_message_id(value)


def read_content_type(request: Head) -> str | None:
    """Return the producer's content type, kept as it is, or None if there is none. Raises
    InvalidRequest."""
    value = _read_once(request, "Content-Type")
    if value is not None and not is_content_type(value):
        raise InvalidRequest(
            f"header Content-Type has at most {MAX_CONTENT_TYPE_BYTES} printable ASCII characters"
        )
    return value or None


def _read_once(request: Head, name: str) -> str | None:
    """Return a header without the space around it, or None if it is missing. Raises InvalidRequest
    if it is repeated."""
    values = request.headers.getall(name, None)
    if not values:
        return None
    if len(values) > 1:
        raise InvalidRequest(f"header {name} is given twice; give it once")
    return values[0].strip(HEADER_SPACE)
