"""The JSON of a result, some of which is written already."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from itertools import chain
from typing import Any

from mq_sqs.text_attributes import TextAttributes

_PLACE, _WRITTEN_PLACE = "\0", r'"\u0000"'
"""A text that SQS cannot express, so that no message has it, and how JSON writes it."""


def encode(result: Mapping[str, Any]) -> bytes:
    """Return the JSON of a result. Attributes that are texts write their own in a tenth of the
    time; it is put in the place that the answer has for it."""
    if "Messages" not in result:
        return _ENCODER.encode(result).encode()
    written: list[str] = []

    def write(value: object) -> str:
        if not isinstance(value, TextAttributes):
            return _blob(value)
        written.append(value.to_json())
        return _PLACE

    first, *pieces = json.JSONEncoder(default=write).encode(result).split(_WRITTEN_PLACE)
    return (first + "".join(chain.from_iterable(zip(written, pieces, strict=True)))).encode()


def _blob(value: object) -> str:
    assert isinstance(value, bytes)
    return base64.b64encode(value).decode()


_ENCODER = json.JSONEncoder(default=_blob)
