"""Attributes of a message: which are allowed, how many bytes they count, and their MD5.
`mq_sqs.messages.packing` finds all of it in one pass over what a client sends.

The MD5 covers each attribute in the order of the names: name, type and value, each after its length
in four bytes, and the value also after a byte that tells text (1) from binary (2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from mq_sqs.faults import INVALID_PARAMETER_VALUE, SQSError, SqsFault
from mq_sqs.messages.digests import md5_in_hex

MAX_ATTRIBUTES = 10

TRACE_HEADER = "AWSTraceHeader"

Attributes = Mapping[str, Mapping[str, Any]]
"""Attributes by name. Each has a `DataType`, and a `StringValue` or `BinaryValue`."""

_NAME = re.compile(r"(?!\.)(?!.*\.\.)[\w.-]{1,256}(?<!\.)")
"""Letters and digits are those of every script: SQS takes more than its documents say."""
_RESERVED = ("aws.", "amazon.")
_TYPE = re.compile(r"(String|Number|Binary)(?:\..+)?")
_NUMBER = re.compile(r"[+-]?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
"""The time that it takes grows with the length, not with its square: a value may have a MiB."""
_MAX_TYPE_CHARACTERS = 256
_MAX_NUMBER_DIGITS = 38
_LEAST_POWER, _MOST_POWER = -128, 126
"""The powers of ten that the first digit of a number may have."""
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that SQS takes in no text, because XML 1.0 cannot contain them."""
_KNOWN_HEADS = 1024
"""Names with types whose part in the MD5 is not made again: programs have few."""
_KNOWN_LENGTHS = 1024
_USUAL = b"\t\n\r" + bytes(range(0x20, 0x80))


def is_text(text: str) -> bool:
    return (text.isascii() and text.isprintable()) or _FORBIDDEN.search(text) is None


def check_text(data: bytes, what: str, fault: SqsFault = INVALID_PARAMETER_VALUE) -> None:
    """Raise SQSError for a character that SQS does not take, in a text as UTF-8."""
    found = None if is_usual_text(data) else _FORBIDDEN.search(data.decode())
    if found is not None:
        raise SQSError(
            fault,
            f"{what} has the character U+{ord(found[0]):04X}, which SQS does not take: allowed are "
            "#x9, #xA, #xD, #x20 to #xD7FF, #xE000 to #xFFFD and #x10000 to #x10FFFF",
        )


def is_usual_text(data: bytes) -> bool:
    """Return whether data is text in ASCII that SQS takes: most is."""
    return not data.translate(None, _USUAL)


def check_count(attributes: Attributes) -> None:
    """Raise SQSError for too many attributes."""
    if len(attributes) > MAX_ATTRIBUTES:
        raise SQSError(
            INVALID_PARAMETER_VALUE,
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum "
            f"[{MAX_ATTRIBUTES}].",
        )


def check_name(name: str) -> None:
    """Raise SQSError for a name that no attribute may have."""
    if not _NAME.fullmatch(name) or name.lower().startswith(_RESERVED):
        raise wrong(name, "its name has letters, digits, '_', '-' and '.', up to 256; it does "
                    "not begin with AWS. or Amazon.")  # fmt: skip


def check_type(name: str, kind: str) -> str:
    """Return what a type says before its label: String, Number or Binary. Raises SQSError for what
    is not a type."""
    match = _TYPE.fullmatch(kind)
    if match is None or len(kind) > _MAX_TYPE_CHARACTERS or ":" in kind:
        raise SQSError(
            INVALID_PARAMETER_VALUE,
            f"The type of message (user) attribute '{name}' is invalid. You must use only the "
            "following supported type prefixes: Binary, Number, String.",
        )
    check_text(kind.encode(), f"the type of message attribute {name!r}")
    return match[1]


def check_number(name: str, text: str) -> None:
    """Raise SQSError for what is not a number, has too many digits, or is too large or small."""
    if len(text) <= _MAX_NUMBER_DIGITS and text.isascii() and text.isdigit():
        return
    match = _NUMBER.fullmatch(text)
    if match is not None:
        digits = match[1].replace(".", "").strip("0")
        if not digits:
            return
        power = Decimal(text).adjusted()
        if len(digits) <= _MAX_NUMBER_DIGITS and _LEAST_POWER <= power <= _MOST_POWER:
            return
    raise wrong(name, "its value must be a number of up to 38 digits, from 1e-128 to 1e126")


def explain(name: str, value: Mapping[str, Any], member: str) -> SQSError:
    """Return what is wrong with an attribute that must have this member for its value, not empty,
    and no other one."""
    if "StringListValues" in value or "BinaryListValues" in value:
        return wrong(name, "lists of values are not supported by SQS")
    if member not in value or len(value) != 2:
        kind = value["DataType"][:40]
        return wrong(name, f"with the type {kind!r} give {member}, and nothing else")
    return SQSError(
        INVALID_PARAMETER_VALUE,
        f"Message (user) attribute '{name}' must contain a non-empty value of type "
        f"'{value['DataType']}'.",
    )


def wrong(name: str, why: str) -> SQSError:
    return SQSError(INVALID_PARAMETER_VALUE, f"message attribute {name[:256]!r}: {why}")


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
        binary = value.get("BinaryValue")
        data: bytes = value["StringValue"].encode() if binary is None else binary
        parts += (head_of(name, value["DataType"], binary is not None), length_of(len(data)), data)
    return md5_in_hex(b"".join(parts))


@lru_cache(_KNOWN_HEADS)
def head_of(name: str, kind: str, is_binary: bool) -> bytes:
    """Return what the MD5 covers before the length of a value."""
    named, typed = name.encode(), kind.encode()
    mark = b"\2" if is_binary else b"\1"
    return b"".join((length_of(len(named)), named, length_of(len(typed)), typed, mark))


@lru_cache(_KNOWN_LENGTHS)
def length_of(length: int) -> bytes:
    """Return a length as the MD5 covers it."""
    return length.to_bytes(4, "big")


BYTES_AROUND = 4 + 4 + 1 + 4
"""What the MD5 covers of an attribute besides name, type and value: lengths, and a byte that tells
text from binary."""


_ALL = ("All", ".*", "*")


class Choice(NamedTuple):
    """Which attributes a receiver asks for: by name, `prefix.*`, `.*`, `*` or `All`."""

    names: frozenset[str]
    prefixes: tuple[str, ...]
    is_all: bool

    def has(self, name: str) -> bool:
        return self.is_all or name in self.names or name.startswith(self.prefixes)

    def of(self, attributes: Attributes) -> Attributes:
        """Return those that are asked for."""
        if self.is_all:
            return attributes
        return {name: value for name, value in attributes.items() if self.has(name)}


def choice_of(asked: Iterable[str]) -> Choice:
    names = frozenset(asked)
    prefixes = tuple(each[:-2] for each in names if each.endswith(".*"))
    return Choice(names, prefixes, not names.isdisjoint(_ALL))


def _data_of(value: Mapping[str, Any]) -> bytes:
    binary = value.get("BinaryValue")
    data: bytes = value["StringValue"].encode() if binary is None else binary
    return data
