"""Attributes of a message: which are allowed, how many bytes they count, and their MD5.

The MD5 covers each attribute in the order of the names: name, type and value, each after its length
in four bytes, and the value also after a byte that tells text (1) from binary (2).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from mq_sqs.faults import INVALID_MESSAGE_CONTENTS, INVALID_PARAMETER_VALUE, SQSError

MAX_ATTRIBUTES = 10

TRACE_HEADER = "AWSTraceHeader"

Attributes = Mapping[str, Mapping[str, Any]]
"""Attributes by name. Each has a `DataType`, and a `StringValue` or `BinaryValue`."""

_NAME = re.compile(r"(?!\.)(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)")
_RESERVED = ("aws.", "amazon.")
_TYPE = re.compile(r"(String|Number|Binary)(?:\..+)?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_MAX_TYPE_CHARACTERS = 256
_MAX_NUMBER_DIGITS = 38
_KNOWN_WORDS = 1024
"""Names and types of attributes that are not looked at again: programs have few."""

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that SQS takes in no text, because XML 1.0 cannot contain them."""


def is_text(text: str) -> bool:
    return (text.isascii() and text.isprintable()) or _FORBIDDEN.search(text) is None


def check_text(text: str, what: str) -> None:
    """Raise SQSError for a character that SQS does not take."""
    found = None if is_text(text) else _FORBIDDEN.search(text)
    if found is not None:
        raise SQSError(
            INVALID_MESSAGE_CONTENTS,
            f"{what} has the character U+{ord(found[0]):04X}, which SQS does not take: allowed are "
            "#x9, #xA, #xD, #x20 to #xD7FF, #xE000 to #xFFFD and #x10000 to #x10FFFF",
        )


def check_attributes(attributes: Attributes) -> None:
    """Raise SQSError, which names the attribute, if one is not allowed."""
    if len(attributes) > MAX_ATTRIBUTES:
        raise SQSError(
            INVALID_PARAMETER_VALUE,
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum "
            f"[{MAX_ATTRIBUTES}].",
        )
    for name, value in attributes.items():
        if not _is_name(name):
            raise _wrong(name, "its name has letters, digits, '_', '-' and '.', up to 256; it does "
                         "not begin with AWS. or Amazon.")  # fmt: skip
        _check_value(name, value)


@lru_cache(_KNOWN_WORDS)
def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and not name.lower().startswith(_RESERVED)


@lru_cache(_KNOWN_WORDS)
def _base_of(kind: str) -> str | None:
    """Return String, Number or Binary; None for what is not a type."""
    match = _TYPE.fullmatch(kind)
    return None if match is None or len(kind) > _MAX_TYPE_CHARACTERS or ":" in kind else match[1]


def check_system_attributes(attributes: Attributes) -> None:
    """Raise SQSError if a system attribute is not allowed."""
    for name, value in attributes.items():
        if name != TRACE_HEADER:
            raise _wrong(name, f"the only system attribute to send is {TRACE_HEADER}")
        _check_value(name, value)
        if value["DataType"] != "String":
            raise _wrong(name, "its type must be String")


def size_of(attributes: Attributes) -> int:
    """Return the number of bytes that attributes add to the size of a message."""
    return sum(
        len(name.encode()) + len(value["DataType"].encode()) + len(_data_of(value))
        for name, value in attributes.items()
    )


def md5_of(attributes: Attributes) -> str:
    parts: list[bytes] = []
    for name in sorted(attributes):
        value = attributes[name]
        kind, data = value["DataType"].encode(), _data_of(value)
        mark = b"\2" if "BinaryValue" in value else b"\1"
        named = name.encode()
        parts += (_length_of(named), named, _length_of(kind), kind, mark, _length_of(data), data)
    return hashlib.md5(b"".join(parts), usedforsecurity=False).hexdigest()


def select(attributes: Attributes, asked: Iterable[str]) -> Attributes:
    """Return the attributes that a receiver asks for: by name, `prefix.*`, `.*` or `All`."""
    wanted = list(asked)
    if "All" in wanted or ".*" in wanted:
        return attributes
    prefixes = tuple(each[:-2] for each in wanted if each.endswith(".*"))
    return {
        name: value
        for name, value in attributes.items()
        if name in wanted or (prefixes and name.startswith(prefixes))
    }


def _check_value(name: str, value: Mapping[str, Any]) -> None:
    kind = value["DataType"]
    if "StringListValues" in value or "BinaryListValues" in value:
        raise _wrong(name, "lists of values are not supported by SQS")
    base = _base_of(kind)
    if base is None:
        raise _wrong(name, "its type must be String, Number or Binary, with a label behind a dot "
                     "if you like")  # fmt: skip
    check_text(kind, f"the type of message attribute {name!r}")
    member = "BinaryValue" if base == "Binary" else "StringValue"
    if member not in value or len(value) != 2:
        raise _wrong(name, f"with the type {kind[:40]!r} give {member}, and nothing else")
    if not value[member]:
        raise _wrong(name, "its value must not be empty")
    if base != "Binary":
        check_text(value[member], f"message attribute {name!r}")
    if base == "Number" and not _is_number(value[member]):
        raise _wrong(name, "its value must be a number of up to 38 digits")


def _is_number(text: str) -> bool:
    mantissa = re.split("[eE]", text, maxsplit=1)[0]
    digits = re.sub("[^0-9]", "", mantissa).strip("0")
    return _NUMBER.fullmatch(text) is not None and len(digits) <= _MAX_NUMBER_DIGITS


def _wrong(name: str, why: str) -> SQSError:
    return SQSError(INVALID_PARAMETER_VALUE, f"message attribute {name[:256]!r}: {why}")


def _data_of(value: Mapping[str, Any]) -> bytes:
    binary = value.get("BinaryValue")
    data: bytes = value["StringValue"].encode() if binary is None else binary
    return data


def _length_of(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big")
