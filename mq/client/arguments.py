"""Checks of the types of arguments. The error names the argument and says what to do; without it
the call would fail later, with an error that says neither."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from math import isnan
from numbers import Integral, Real

from mq.config import MAX_REQUEST_LINE_BYTES
from mq.names import MessageId, QueueName, parse_message_id, parse_queue_name

MOST_BYTES_OF_IDS = MAX_REQUEST_LINE_BYTES - 512
"""The rest of the line has the method, a prefix of the URL, and the queue."""


def queue_name(argument: str, value: str) -> QueueName:
    """Return the name of a queue. Raises TypeError, InvalidName."""
    if not isinstance(value, str):
        raise TypeError(
            f"{argument}: a queue's name is str, not {_kind(value)}{_hint(value, 'name')}"
        )
    return parse_queue_name(value)


def queue_names(first: QueueName, argument: str, others: Iterable[str]) -> list[QueueName]:
    """Return the first queue and the others, each once. Raises TypeError, InvalidName."""
    if isinstance(others, str | bytes) or not isinstance(others, Iterable):
        raise TypeError(f"{argument}: give a list of names, not {_kind(others)}")
    return [*dict.fromkeys([first, *(queue_name(argument, each) for each in others)])]


def message_id(argument: str, value: str) -> MessageId:
    """Return the id of a message. Raises TypeError, InvalidName."""
    if not isinstance(value, str):
        raise TypeError(
            f"{argument}: a message's id is str, not {_kind(value)}{_hint(value, 'id')}"
        )
    return parse_message_id(value)


def split_ids(ids: Iterable[str], most: int, most_bytes: int) -> Iterator[list[MessageId]]:
    """Yield the ids for one request each: its line has a limit, and so has their number. Raises
    TypeError, InvalidName."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise TypeError(f"ids: give a list of ids, not {_kind(ids)}")
    some: list[MessageId] = []
    size = 0
    for each in (message_id("ids", each) for each in ids):
        if some and (len(some) == most or size + len(each) > most_bytes):
            yield some
            some, size = [], 0
        some.append(each)
        size += len(each) + 1
    if some:
        yield some


def leases_by_id(leases: Mapping[str, str]) -> Mapping[str, str]:
    """Return the leases as they are. Raises TypeError."""
    wrong: list[object] = [leases]
    if isinstance(leases, Mapping):
        wrong = [each for pair in leases.items() for each in pair if not isinstance(each, str)]
    if wrong:
        raise TypeError(
            "leases: give the lease of each id, as in {message.id: message.lease for message in "
            f"messages}}, not {_kind(wrong[0])}"
        )
    return leases


def by_name(argument: str, values: object, example: str) -> None:
    """Raise TypeError unless these are values by name."""
    if not isinstance(values, Mapping):
        raise TypeError(f"{argument}: give names and values, as in {example}, not {_kind(values)}")
    for name in values:
        if not isinstance(name, str):
            raise TypeError(f"{argument}: a name is str, not {_kind(name)}, as in {example}")


def seconds(argument: str, value: object) -> None:
    """Raise TypeError unless this is a number of seconds, and ValueError for NaN."""
    if not isinstance(value, Real):
        hint = "; total_seconds() gives them" if hasattr(value, "total_seconds") else ""
        raise TypeError(f"{argument}={value!r}: give seconds as a number{hint}")
    if isinstance(value, float) and isnan(value):
        raise ValueError(f"{argument}={value!r}: give seconds as a number")


def count(argument: str, value: object) -> None:
    """Raise TypeError unless this is a whole number."""
    if not isinstance(value, Integral):
        raise TypeError(f"{argument}={value!r}: give a whole number")


def limit(argument: str, value: int | None) -> None:
    """Raise TypeError unless this is a whole number or None, and ValueError if it is below 1."""
    if value is None:
        return
    count(argument, value)
    if value < 1:
        raise ValueError(f"{argument}={value!r}: give 1 or more, or None for no limit")


def text(argument: str, value: object) -> None:
    """Raise TypeError unless this is text."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} is str, not {_kind(value)}{_hint(value, '')}")


def path(argument: str, value: object) -> None:
    """Raise TypeError unless this is a path, or None."""
    if value is not None and not isinstance(value, str | bytes | os.PathLike):
        raise TypeError(f"{argument} is a path, not {_kind(value)}")


def _kind(value: object) -> str:
    return type(value).__name__


def _hint(value: object, attribute: str) -> str:
    if isinstance(value, bytes):
        return "; decode() makes it"
    return f"; give its .{attribute}" if attribute and hasattr(value, attribute) else ""
