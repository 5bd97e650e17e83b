"""Tags of a queue, as notes in its settings: `sqs.tag.KEY=VALUE`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import quote, unquote

from mq.spool.queue.queue_settings import QueueSettings
from mq_sqs.faults import INVALID_PARAMETER_VALUE, SQSError
from mq_sqs.messages.message_attributes import is_text

MAX_TAGS = 50
_MAX_KEY_CHARACTERS = 128
_MAX_VALUE_CHARACTERS = 256

_TAG = "sqs.tag."
_EMPTY = '""'
_TO_QUOTE = re.compile(r'[\s%="\x00-\x1f\x7f-\x9f]')


def tag_changes(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the changes of settings for these tags. Raises SQSError for a tag that SQS does not
    take."""
    _check_keys(tags)
    for key, value in tags.items():
        if not (len(value) <= _MAX_VALUE_CHARACTERS and is_text(key) and is_text(value)):
            raise SQSError(
                INVALID_PARAMETER_VALUE,
                f"tag {key!r}: a value has up to {_MAX_VALUE_CHARACTERS} characters, and neither "
                "it nor the key a control character",
            )
        if key.lower().startswith("aws:"):
            raise SQSError(INVALID_PARAMETER_VALUE, f"tag {key!r}: keys with aws: are Amazon's")
    return {_TAG + _quote(key): _quote(value) or _EMPTY for key, value in tags.items()}


def untag_changes(keys: Collection[str]) -> dict[str, str]:
    """Return the changes of settings that take these tags away. Raises SQSError for a key that no
    tag has, if there are none, and for more than a queue has."""
    if len(keys) > MAX_TAGS:
        raise SQSError(INVALID_PARAMETER_VALUE, f"Too many tags: a queue has up to {MAX_TAGS}.")
    _check_keys(keys or [""])  # None is as wrong as an empty one.
    return {_TAG + _quote(key): "" for key in keys}


def tags_of(settings: QueueSettings) -> dict[str, str]:
    return {
        unquote(name.removeprefix(_TAG)): "" if value == _EMPTY else unquote(value)
        for name, value in settings.notes.items()
        if name.startswith(_TAG)
    }


def _check_keys(keys: Iterable[str]) -> None:
    if not all(1 <= len(key) <= _MAX_KEY_CHARACTERS for key in keys):
        raise SQSError(
            INVALID_PARAMETER_VALUE,
            f"Tag keys must be between 1 and {_MAX_KEY_CHARACTERS} characters in length.",
        )


def _quote(text: str) -> str:
    """Quote a text, so that it is on one line and lacks what separates names from values."""
    return _TO_QUOTE.sub(lambda found: quote(found[0]), text)
