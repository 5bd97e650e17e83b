"""JSON by RFC 8259, and no more: what Python's own parser takes beyond it is refused here."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_STRING = re.compile(r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"')
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_SIMPLE = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {"true": True, "false": False, "null": None}


class Drawn(Protocol):
    """What a composite strategy draws with."""

    def __call__(self, strategy: st.SearchStrategy[T], /) -> T: ...


class NotJson(Exception):
    pass


class Pairs(list[tuple[str, Any]]):
    """The members of an object, in their order, each as often as it is there."""


def parse(text: str) -> Any:
    """An object is Pairs, a number a Decimal. Raises NotJson, also for what is nested deeply."""
    try:
        value, at = _value(text, _space(text, 0))
    except RecursionError:
        raise NotJson(text[:80]) from None
    if _space(text, at) != len(text):
        raise NotJson(text)
    return value


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _value(text: str, at: int) -> tuple[Any, int]:
    for word, meaning in _WORDS.items():
        if text.startswith(word, at):
            return meaning, at + len(word)
    if text.startswith('"', at):
        return _string(text, at)
    if text.startswith("{", at):
        return _all(text, at + 1, "}", _member, Pairs())
    if text.startswith("[", at):
        return _all(text, at + 1, "]", _value, [])
    number = _NUMBER.match(text, at)
    if number is None:
        raise NotJson(text)
    return Decimal(number[0]), number.end()


def _string(text: str, at: int) -> tuple[str, int]:
    found = _STRING.match(text, at)
    if found is None:
        raise NotJson(text)
    return _joined(_ESCAPE.sub(_meant, found[1])), found.end()


def _meant(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _SIMPLE.get(escape[2], escape[2])


def _joined(text: str) -> str:
    """Two halves of a surrogate pair are one character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _member(text: str, at: int) -> tuple[tuple[str, Any], int]:
    name, at = _string(text, at)
    at = _space(text, at)
    if not text.startswith(":", at):
        raise NotJson(text)
    value, at = _value(text, _space(text, at + 1))
    return (name, value), at


def _all(text: str, at: int, end: str, read: Any, found: Any) -> tuple[Any, int]:
    at = _space(text, at)
    if text.startswith(end, at):
        return found, at + 1
    while True:
        each, at = read(text, at)
        found.append(each)
        at = _space(text, at)
        if text.startswith(end, at):
            return found, at + 1
        if not text.startswith(",", at):
            raise NotJson(text)
        at = _space(text, at + 1)
