"""Properties: names and values that stay with a message, and which ones there are.

name    traceparent, tracestate, baggage, content-encoding, content-language, ce-NAME, x-meta-NAME;
        in lower case, because names of HTTP headers are the same in either case
value   printable ASCII, without a space at either end
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from mq.config import KIB, MIB
from mq.errors import InvalidRequest, PropertiesTooLarge, shown

Properties = Mapping[str, str]

MAX_PROPERTIES = 64
MAX_PROPERTIES_BYTES = 8 * KIB
"""How many properties HTTP takes with a message, and how many bytes their names and values have
together."""

MAX_STORED_PROPERTIES_BYTES = 8 * MIB
"""The limit for messages that were not published over HTTP: 1 MiB of attributes of SQS, where a
character takes up to 6 bytes of JSON in ASCII."""

NO_PROPERTIES: Properties = MappingProxyType({})

PREFIXES = ("ce-", "x-meta-")

LISTS = frozenset({"tracestate", "baggage", "content-encoding", "content-language"})
"""Headers that may come more than once: their values are one list then (RFC 9110, section 5.3)."""

_NAME = re.compile(
    r"traceparent|tracestate|baggage|content-encoding|content-language"
    r"|(?:ce-|x-meta-)[a-z0-9!#$%&'*+.^_`|~-]+"
)
_VALUE = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
_KNOWN_NAMES = 256
"""Names that are not looked at again: producers have few."""
_LONGEST_KNOWN_NAME = 256
"""A longer one is not kept: one in a batch may have megabytes."""


def is_property(name: str) -> bool:
    """Return whether a name in lower case is that of a property."""
    if len(name) > _LONGEST_KNOWN_NAME:
        return _NAME.fullmatch(name) is not None
    return _is_known_property(name)


@lru_cache(_KNOWN_NAMES)
def _is_known_property(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def check_properties(pairs: Iterable[tuple[str, str]]) -> Properties:
    """Return the properties, with names in lower case. Raises InvalidRequest, which names the
    property that is wrong."""
    found: dict[str, str] = {}
    for given, value in pairs:
        name = given.lower() if given.isascii() else given
        if not is_property(name):
            raise InvalidRequest(
                f"property {shown(given)}: a name is traceparent, tracestate, baggage, "
                "content-encoding or content-language, or begins with ce- or x-meta-, followed "
                "by characters of a header's name"
            )
        if name in found:
            raise InvalidRequest(f"property {shown(given)} is given twice; give it once")
        if not _VALUE.fullmatch(value):
            raise InvalidRequest(
                f"property {shown(given)}: a value has printable ASCII characters, and no space at "
                "either end; percent-encode others"
            )
        found[name] = value
    return found


def require_http_size(properties: Properties) -> None:
    """Raise PropertiesTooLarge if there are more than HTTP takes and returns in headers."""
    if len(properties) > MAX_PROPERTIES:
        raise PropertiesTooLarge(
            f"the message has {len(properties)} properties; {MAX_PROPERTIES} are allowed"
        )
    require_size(properties, MAX_PROPERTIES_BYTES)


def require_size(properties: Properties, most: int) -> None:
    """Raise PropertiesTooLarge if names and values have more than `most` bytes."""
    length = size_of(properties)
    if length > most:
        raise PropertiesTooLarge(
            f"the names and values of the properties have {length} bytes; at most {most} are "
            "allowed"
        )


def size_of(properties: Properties) -> int:
    """Return the number of bytes of all names and values."""
    return sum(len(name) + len(value) for name, value in properties.items())
