"""Properties as headers of HTTP: read from a publish, and returned with the message."""

from __future__ import annotations

from mq.errors import InvalidRequest, PropertiesTooLarge
from mq.properties import (
    LISTS,
    MAX_PROPERTIES,
    MAX_PROPERTIES_BYTES,
    NO_PROPERTIES,
    PREFIXES,
    Properties,
    check_properties,
    is_property,
    require_http_size,
    size_of,
)
from mq.web.parameters import HEADER_SPACE, Head

LEFT_OUT = "X-Properties-Left-Out"
"""The header that says how many properties are missing from the headers because they would be too
long."""

_USUAL = frozenset(
    name
    for usual in (
        "Accept",
        "Accept-Encoding",
        "Accept-Language",
        "Authorization",
        "Connection",
        "Content-Length",
        "Content-Type",
        "Host",
        "Transfer-Encoding",
        "User-Agent",
        "X-Message-Id",
    )
    for name in (usual, usual.lower())
)
"""Most requests have no other headers, so one look tells that they have no properties."""


def read_properties(request: Head) -> Properties:
    """Return the properties in a request's headers. Raises InvalidRequest, which names the header,
    and PropertiesTooLarge."""
    headers = request.headers
    if _USUAL.issuperset(headers):
        return NO_PROPERTIES
    pairs = []
    for name in dict.fromkeys(map(str.lower, headers)):
        if not (name.startswith(PREFIXES) or is_property(name)):
            continue
        values = headers.getall(name)
        if len(values) > 1 and name not in LISTS:
            raise InvalidRequest(f"header {name} is given twice; give it once")
        pairs.append((name, ", ".join(value.strip(HEADER_SPACE) for value in values)))
    if not pairs:
        return NO_PROPERTIES
    properties = check_properties(pairs)
    require_http_size(properties)
    return properties


def refuse_properties_of_batch(request: Head) -> None:
    """Raise InvalidRequest for properties that a producer gave on purpose. Others, such as
    `traceparent`, concern only the HTTP request."""
    for name in map(str.lower, request.headers):
        if name.startswith(PREFIXES):
            raise InvalidRequest(f"header {name}: in a batch each line has its own 'properties'")


def property_headers(properties: Properties) -> dict[str, str]:
    """Return as many properties as a client can be expected to read as headers, short ones first.
    There are more only if the message was not published over HTTP."""
    try:
        require_http_size(properties)
    except PropertiesTooLarge:
        return _that_fit(properties)
    return dict(properties)


def _that_fit(properties: Properties) -> dict[str, str]:
    given: dict[str, str] = {}
    room = MAX_PROPERTIES_BYTES
    for name, value in sorted(properties.items(), key=lambda pair: size_of(dict([pair]))):
        room -= len(name) + len(value)
        if room < 0 or len(given) == MAX_PROPERTIES:
            break
        given[name] = value
    return {**given, LEFT_OUT: str(len(properties) - len(given))}
