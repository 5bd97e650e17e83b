"""What SQS and docs/sqs.md allow, written once more."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tests.crash.fuzz.grammar import is_unicode
from tests.crash.fuzz.json_text import NotJson, Pairs, parse

_ENTRY = re.compile(r"DeleteMessageBatchRequestEntry\.([1-9][0-9]{0,5})\.(Id|ReceiptHandle)")
_WHOLE = re.compile("[+-]?[0-9]{1,18}")
_ID = re.compile("[A-Za-z0-9_-]{1,80}")
_MADE = re.compile("[A-Za-z0-9](?:[A-Za-z0-9_-]{0,79}|[A-Za-z0-9_-]{0,74}[.]fifo)")
_OF_ENTRY = {"Id", "ReceiptHandle"}
_OF_ALL = {
    *("Action", "Version", "AWSAccessKeyId", "Signature", "SignatureMethod", "SignatureVersion"),
    *("Timestamp", "Expires", "SecurityToken", "X-Amz-Algorithm", "X-Amz-Credential"),
    *("X-Amz-Date", "X-Amz-Expires", "X-Amz-Security-Token", "X-Amz-Signature"),
    "X-Amz-SignedHeaders",
}
"""Parameters that any request of the query protocol may have: Amazon's common parameters."""

Fields = Sequence[tuple[str, str]]


def is_name_to_make(text: str) -> bool:
    return _MADE.fullmatch(text) is not None


def entries_of_form(fields: Fields) -> list[str] | None:
    """The ids of a DeleteMessageBatch in the query protocol, in the order of their numbers; None if
    the form is wrong."""
    if len(dict(fields)) < len(fields) or "QueueUrl" not in dict(fields):
        return None
    entries: dict[int, dict[str, str]] = defaultdict(dict)
    for name, value in fields:
        found = _ENTRY.fullmatch(name)
        if found is not None:
            entries[int(found[1])][found[2]] = value
        elif name != "QueueUrl" and name not in _OF_ALL:
            return None
    if any(each.keys() != _OF_ENTRY for each in entries.values()):
        return None
    return [entries[number]["Id"] for number in sorted(entries)]


def entries_of_json(body: bytes) -> list[str] | None:
    """The same in JSON. A null counts as missing, and of two members of one name the last."""
    document = _document(body)
    if document is None:
        return None
    if not _is_text(document.get("QueueUrl")):
        return None
    given = document.get("Entries", [])
    if not isinstance(given, list) or isinstance(given, Pairs):
        return None
    ids: list[str] = []
    for each in given:
        entry = _members(each, _OF_ENTRY)
        if entry is None or entry.keys() != _OF_ENTRY or not all(map(_is_text, entry.values())):
            return None
        ids.append(entry["Id"])
    return ids


def is_batch(ids: Sequence[str]) -> bool:
    is_each_right = all(map(_ID.fullmatch, ids))
    return 1 <= len(ids) <= 10 and is_each_right and len(set(ids)) == len(ids)


def is_number_of_form(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None


def is_json(body: bytes) -> bool:
    try:
        parse(body.decode())
    except (UnicodeDecodeError, NotJson):
        return not body.strip(b" \t\r\n")
    return True


def _document(body: bytes) -> Mapping[str, Any] | None:
    try:
        if not body.strip(b" \t\r\n"):
            return {}
        return _members(parse(body.decode()), {"QueueUrl", "Entries"})
    except (UnicodeDecodeError, NotJson):
        return None


def _members(value: Any, known: set[str]) -> dict[str, Any] | None:
    """What an object has, without nulls; None if it is not an object, or has an unknown name. Names
    of the query protocol, which have a dot, are passed over."""
    if not isinstance(value, Pairs):
        return None
    members = {name: each for name, each in dict(value).items() if "." not in name}
    if not members.keys() <= known:
        return None
    return {name: each for name, each in members.items() if each is not None}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and is_unicode(value)
