"""Attributes of a queue as settings of MQ, and back.

Those that a queue of MQ has too are its settings. The others are notes in the same file, `sqs.NAME`
(`mq.spool.queue.queue_settings`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from mq.names import QueueName, is_fifo
from mq.spool.queue.queue_settings import QueueSettings
from mq_sqs.faults import unknown_attribute, wrong_value
from mq_sqs.fifo.attributes import FIFO_ATTRIBUTES, fifo_attributes_of, fifo_changes
from mq_sqs.queues.addresses import Addressing
from mq_sqs.queues.redrive_policies import (
    ALLOW_NOTE,
    REDRIVE,
    REDRIVE_ALLOW,
    check_allow_policy,
    dead_letters_of,
    read_redrive_policy,
)

CREATED = "sqs.created"
MODIFIED = "sqs.modified"
"""When the gateway made the queue, and when it last changed its attributes, in seconds since
1970."""

MAX_MESSAGE_BYTES = 1 << 20
MAX_RETENTION_SECONDS = 1_209_600
MAX_VISIBILITY_SECONDS = 43_200
MAX_DELAY_SECONDS = 900
MAX_WAIT_SECONDS = 20
"""Amazon's limits: of a queue's attributes, and of what a request says in their place."""

_HIDES_NOTHING = "sqs.visibility"
"""A visibility timeout of 0, which is not a setting of MQ."""


class _Number(NamedTuple):
    """An attribute that is a number: the setting for it, its limits, and its default at Amazon."""

    setting: str
    least: int
    most: int
    default: int


_NUMBERS: Mapping[str, _Number] = {
    "VisibilityTimeout": _Number("visibility", 0, MAX_VISIBILITY_SECONDS, 30),
    "DelaySeconds": _Number("delay", 0, MAX_DELAY_SECONDS, 0),
    "MessageRetentionPeriod": _Number("ttl", 60, MAX_RETENTION_SECONDS, 345_600),
    "MaximumMessageSize": _Number("sqs.max-size", 1024, MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES),
    "ReceiveMessageWaitTimeSeconds": _Number("sqs.wait", 0, MAX_WAIT_SECONDS, 0),
}

NEW_QUEUE: Mapping[str, str] = {"ttl": str(_NUMBERS["MessageRetentionPeriod"].default)}
"""The settings of a queue that is made without attributes: Amazon keeps a message for four days."""

_KEYS = "mq-sqs does not encrypt; encrypt the file system of the root"

_FIXED: Mapping[str, tuple[frozenset[str], str]] = {
    "Policy": (frozenset({""}), "mq-sqs has no policies; give tokens with --token-file"),
    "KmsMasterKeyId": (frozenset({""}), _KEYS),
    "SqsManagedSseEnabled": (frozenset({"", "false"}), _KEYS),
}
"""Attributes that always have the same value, the values that may be given for them, and why no
others."""

_KEY_REUSE = "KmsDataKeyReusePeriodSeconds"
_LEAST_KEY_REUSE, _MOST_KEY_REUSE = 60, 86_400
"""How long a key is used, in seconds. Without a key it changes nothing, nor is it shown, as with
Amazon."""

COUNTS: Mapping[str, str] = {
    "ApproximateNumberOfMessages": "ready",
    "ApproximateNumberOfMessagesNotVisible": "leased",
    "ApproximateNumberOfMessagesDelayed": "delayed",
}
_READ_ONLY = frozenset({*COUNTS, "QueueArn", "CreatedTimestamp", "LastModifiedTimestamp"})
KNOWN = frozenset({
    *_NUMBERS, *_FIXED, _KEY_REUSE, *FIFO_ATTRIBUTES, REDRIVE, REDRIVE_ALLOW, *_READ_ONLY,
})  # fmt: skip
"""The names of all attributes of the model, except `All`."""

_DIGITS = re.compile("[0-9]{1,9}")


# To settings


def changes_of(queue: QueueName, attributes: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the attributes ask for; an empty attribute is taken away. Raises
    SQSError."""
    changes: dict[str, str] = {}
    for name, text in attributes.items():
        if name in _NUMBERS:
            changes |= _number_changes(name, text)
        elif name in _FIXED:
            _check_fixed(name, text)
        elif name == _KEY_REUSE:
            if text:
                _check_number(name, text, _LEAST_KEY_REUSE, _MOST_KEY_REUSE)
        elif name in FIFO_ATTRIBUTES:
            changes |= fifo_changes(queue, name, text)
        elif name == REDRIVE:
            policy = read_redrive_policy(text)
            changes["max-receives"] = "" if policy is None else str(policy.max_receives)
            changes["dead-letters"] = "" if policy is None else policy.queue
        elif name == REDRIVE_ALLOW:
            changes[ALLOW_NOTE] = check_allow_policy(text)
        else:
            raise unknown_attribute(name)
    return changes


def _number_changes(name: str, text: str) -> dict[str, str]:
    setting, least, most, _ = _NUMBERS[name]
    _check_number(name, text, least, most)
    if setting != "visibility":
        return {setting: str(int(text))}
    is_zero = int(text) == 0
    return {setting: "" if is_zero else str(int(text)), _HIDES_NOTHING: "0" if is_zero else ""}


def _check_number(name: str, text: str, least: int, most: int) -> None:
    if not _DIGITS.fullmatch(text) or not least <= int(text) <= most:
        raise wrong_value(name, f"give a whole number, {least} to {most}")


def _check_fixed(name: str, text: str) -> None:
    allowed, why = _FIXED[name]
    if text.lower() not in allowed:
        raise wrong_value(name, why)


# From settings


def number_of(settings: QueueSettings, name: str, visibility_seconds: float) -> int:
    """Return the number that counts for a queue; `visibility_seconds` is the server's. For a queue
    without a `ttl`, which SQS does not have, this is the longest time."""
    if name == "VisibilityTimeout":
        if settings.visibility_seconds is None and _HIDES_NOTHING in settings.notes:
            return 0
        own = settings.visibility_seconds
        return math.ceil(visibility_seconds if own is None else own)
    if name == "DelaySeconds":
        return math.ceil(settings.delay_seconds or 0)
    if name == "MessageRetentionPeriod":
        return math.ceil(settings.ttl_seconds or MAX_RETENTION_SECONDS)
    return _noted(settings, _NUMBERS[name])


def message_limit(settings: QueueSettings) -> int:
    """Return the `MaximumMessageSize` of a queue, in bytes."""
    return _noted(settings, _NUMBERS["MaximumMessageSize"])


def _noted(settings: QueueSettings, number: _Number) -> int:
    text = settings.notes.get(number.setting)
    if text is None:
        return number.default
    # A person may have edited the file.
    is_number = _DIGITS.fullmatch(text) is not None and number.least <= int(text) <= number.most
    return int(text) if is_number else number.default


def attributes_of(
    queue: QueueName, settings: QueueSettings, visibility_seconds: float, addressing: Addressing
) -> dict[str, str]:
    """Return all attributes but the counts."""
    found = {name: str(number_of(settings, name, visibility_seconds)) for name in _NUMBERS}
    found["QueueArn"] = addressing.arn_of(queue)
    found["SqsManagedSseEnabled"] = "false"
    if is_fifo(queue):
        found |= fifo_attributes_of(settings)
    for name, note in (("CreatedTimestamp", CREATED), ("LastModifiedTimestamp", MODIFIED)):
        if note in settings.notes:
            found[name] = settings.notes[note]
    dead_letters = dead_letters_of(queue, settings)
    if dead_letters is not None:
        policy = {
            "deadLetterTargetArn": addressing.arn_of(dead_letters.queue),
            "maxReceiveCount": dead_letters.max_receives,
        }
        found[REDRIVE] = json.dumps(policy, separators=(",", ":"))
    if ALLOW_NOTE in settings.notes:
        found[REDRIVE_ALLOW] = settings.notes[ALLOW_NOTE]
    return found


def find_conflict(
    queue: QueueName,
    attributes: Mapping[str, str],
    settings: QueueSettings,
    visibility_seconds: float,
) -> str | None:
    """Return the first attribute for which a queue has another value, or None. A queue that was not
    made here conflicts with nothing that it does not say."""
    said = settings.document()
    for name, text in attributes.items():
        if name in _NUMBERS:
            is_same = number_of(settings, name, visibility_seconds) == int(text)
        elif name == REDRIVE:
            is_same = read_redrive_policy(text) == dead_letters_of(queue, settings)
        elif name == REDRIVE_ALLOW:
            is_same = check_allow_policy(text) == settings.notes.get(ALLOW_NOTE, "")
        elif name in FIFO_ATTRIBUTES and is_fifo(queue):
            asked = fifo_changes(queue, name, text)
            is_same = all(settings.notes.get(note, "") == asked[note] for note in asked)
        else:
            continue
        if not is_same and (
            CREATED in said or not said.keys().isdisjoint(changes_of(queue, {name: text}))
        ):
            return name
    return None
