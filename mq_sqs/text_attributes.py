"""Attributes of a message that are plain texts, as most are, on their way out: all of them together
are read from what is kept, hashed, and written as JSON.

`mq_sqs.properties` reads any attributes, and `mq_sqs.message_attributes` hashes them, one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from mq.properties import Properties
from mq_sqs.digests import md5_in_hex
from mq_sqs.message_attributes import Choice
from mq_sqs.packing import Shape, shape_of
from mq_sqs.properties import ATTRIBUTES

_STEP = 6
"""An attribute is kept as `"NAME":["TYPE","TEXT"]`: three strings, and what is between them."""


class TextAttributes(Mapping[str, Mapping[str, Any]]):
    """Attributes of that shape with these texts, in the order of their names."""

    __slots__ = ("_shape", "_texts", "_whole")

    def __init__(self, shape: Shape, texts: Sequence[str]) -> None:
        self._shape = shape
        self._texts = texts
        self._whole: Mapping[str, Mapping[str, Any]] | None = None

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        return self._attributes()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shape.names)

    def __len__(self) -> int:
        return len(self._texts)

    def _attributes(self) -> Mapping[str, Mapping[str, Any]]:
        if self._whole is None:
            values = zip(self._shape.names, self._shape.kinds, self._texts, strict=True)
            self._whole = {
                name: {"DataType": kind, "StringValue": text} for name, kind, text in values
            }
        return self._whole

    def md5(self) -> str:
        """Return what `md5_of` returns for them."""
        return md5_in_hex(self._shape.hash(list(map(str.encode, self._texts))))

    def to_json(self) -> str:
        """Return what JSON makes of a dict of them."""
        shown = self._shape.shown.copy()
        shown[1::2] = self._texts
        return "".join(shown)


def text_attributes_of(properties: Properties, choice: Choice) -> TextAttributes | None:
    """Return the chosen ones, or None if they must be read one by one: not all that are kept are
    plain texts, or they were not written here."""
    kept = properties.get(ATTRIBUTES, "")
    if "\\" in kept or not kept.isascii():
        return None
    # Without a backslash every other piece is the text of a string.
    pieces = kept.split('"')
    count, left = divmod(len(pieces), _STEP)
    if left != 1 or not count or not _are_between(pieces, count):
        return None
    names, kinds, texts = pieces[1::_STEP], pieces[3::_STEP], pieces[5::_STEP]
    if not choice.is_all:
        chosen = list(map(choice.has, names))
        names, kinds, texts = (list(compress(each, chosen)) for each in (names, kinds, texts))
    in_order = tuple(names)
    shape = shape_of(in_order, tuple(kinds)) if in_order else None
    if shape is None or shape.names != in_order:
        return None
    return TextAttributes(shape, texts)


def _are_between(pieces: Sequence[str], count: int) -> bool:
    """Return whether what is between the strings is what it is for that number of attributes."""
    return (
        pieces[0] == "{"
        and pieces[2::_STEP] == [":["] * count
        and pieces[4::_STEP] == [","] * count
        and pieces[_STEP::_STEP] == ["],"] * (count - 1) + ["]}"]
    )
