"""Names, parameters and headers: what reads them takes what the
grammar of `tests/crash/fuzz/grammar.py` allows, refuses all else, and never fails otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import pytest
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from mq.errors import (
    InvalidName,
    InvalidRequest,
    PropertiesTooLarge,
)
from mq.names import (
    is_message_id,
    is_queue_name,
    parse_file_name,
    parse_message_id,
    parse_queue_name,
)
from mq.web.parameters import (
    Head,
    read_content_type,
    read_count,
    read_guard,
    read_own_id,
    read_parameters,
    read_seconds,
)
from mq.web.properties import read_properties
from mq.web.routes import find
from tests.crash.fuzz import grammar as right
from tests.crash.fuzz.drawing import ID, PROPERTY_NAMES, QUEUE, SECONDS, nearly
from tests.crash.fuzz.judging import Grammar, is_taken, judge_examples, judge_for

_SHORT_EXAMPLES = 60
_LONG_SECONDS = 150
"""For all of them together."""

_SHORT_SECONDS = r"[0-9]{1,6}(\.[0-9]{1,3})?"


# Names


def judge_queue(text: str) -> None:
    is_right = right.is_queue(text)
    found = find(f"/{quote(text, safe='')}/messages")

    assert is_taken(lambda: parse_queue_name(text), InvalidName) == is_right
    assert is_queue_name(text) == is_right
    assert found is None if not text else found is not None and found.queue == text


def judge_id(text: str) -> None:
    is_right = right.is_id(text)

    assert is_taken(lambda: parse_message_id(text), InvalidName) == is_right
    assert is_message_id(text) == is_right


def judge_file_name(text: str) -> None:
    assert parse_file_name(text) == right.file_name_parts(text)


# Parameters and headers


def judge_parameters(text: str) -> None:
    found = {"s": text}

    seconds = is_taken(lambda: read_seconds(found, "s", 60), InvalidRequest)
    positive = is_taken(lambda: read_seconds(found, "s", 2_592_000, False), InvalidRequest)
    count = is_taken(lambda: read_count(found, "s", 1000), InvalidRequest)

    assert seconds == right.is_seconds(text, 60)
    assert positive == right.is_seconds(text, 2_592_000, above_zero=True)
    assert count == right.is_count(text, 1, 1000)


def judge_query(text: str) -> None:
    """Any query is read or refused, and what is read has known names only."""
    known = frozenset({"wait", "max", "id"})
    try:
        found = read_parameters(text, known, frozenset({"id"}))
    except InvalidRequest:
        return
    assert found.keys() <= known


def head_of(*headers: tuple[str, str]) -> Head:
    proxy = CIMultiDictProxy(CIMultiDict(headers))
    return cast(Head, SimpleNamespace(headers=proxy, transport=None))


def judge_headers(text: str) -> None:
    """HTTP gives a value without the spaces and tabs around it."""
    value = text.strip(" \t")

    head = head_of(("X-Message-Id", text), ("Content-Type", text))

    own_id = is_taken(lambda: read_own_id(head), InvalidName)
    assert own_id == right.is_id(value)
    content_type = is_taken(lambda: read_content_type(head), InvalidRequest)
    assert content_type == right.is_content_type(value)


def judge_guard(text: str) -> None:
    head = head_of(("If-Match", text))
    leases = right.leases_in(text)
    if text.strip(" \t") == "*":
        guard = read_guard(head)
        assert guard is not None
        assert guard.is_any
    elif leases is None:
        assert not is_taken(lambda: read_guard(head), InvalidRequest)
    else:
        guard = read_guard(head)
        assert guard is not None
        assert guard.leases == leases
        assert not guard.is_any


def judge_properties(pairs: list[tuple[str, str]]) -> None:
    lowered = {name.lower(): value.strip(" \t") for name, value in pairs}
    asked = {
        name: value
        for name, value in lowered.items()
        if name.startswith(("ce-", "x-meta-")) or right.is_property(name)
    }
    is_right = len(lowered) == len(pairs) and right.are_properties(asked)

    head = head_of(*pairs)

    if len(lowered) == len(pairs):
        assert is_taken(lambda: read_properties(head), InvalidRequest, PropertiesTooLarge) == (
            is_right
        )
        if is_right:
            assert read_properties(head) == asked


# What is drawn

_LEASES = nearly(r'(W/)?"[0-9a-f]{16}"([ ,\t]{1,3}"[0-9a-f]{16}"){0,2}', r"[ \t]?\*[ \t]?")
GRAMMARS = {
    "queue": Grammar(nearly(QUEUE), judge_queue),
    "id": Grammar(nearly(ID), judge_id),
    "file name": Grammar(nearly(f"{QUEUE}:{ID}"), judge_file_name),
    "parameters": Grammar(nearly(SECONDS, _SHORT_SECONDS, "[0-9]{1,9}"), judge_parameters),
    "query": Grammar(nearly("((wait|max|id|x)=[a-z0-9%,]{0,4}&?){0,3}"), judge_query),
    "headers": Grammar(nearly(ID, "[ -~]{0,300}"), judge_headers),
    "guard": Grammar(_LEASES, judge_guard),
    "properties": Grammar(
        st.lists(st.tuples(PROPERTY_NAMES.filter(bool), nearly("[ -~]{0,20}")), max_size=4),
        judge_properties,
    ),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_what_reads_a_text_agrees_with_its_grammar(name: str) -> None:
    judge_examples(GRAMMARS[name], _SHORT_EXAMPLES)


@pytest.mark.parametrize(
    ("name", "example"),
    [
        ("headers", "\u00a0abc"),
        ("guard", "\u3000*"),
        ("properties", [("x-meta-a", "b\u00a0")]),
    ],
)
def test_only_the_spaces_and_line_ends_of_a_grammar_count(name: str, example: Any) -> None:
    """`str.strip`, `split` and `splitlines` know many more, and took them."""
    GRAMMARS[name].judge(example)


@pytest.mark.crash_long
@pytest.mark.parametrize("name", GRAMMARS)
def test_what_reads_a_text_agrees_with_its_grammar_for_longer(name: str) -> None:
    judge_for(GRAMMARS[name], _LONG_SECONDS / len(GRAMMARS))
