"""How a grammar is compared with what reads it, for a number of examples or for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


class Grammar(NamedTuple):
    """What is drawn, and what must hold of each that was: `judge` raises AssertionError."""

    drawn: st.SearchStrategy[Any]
    judge: Callable[[Any], None]


def is_taken(read: Callable[[], object], *refusals: type[Exception]) -> bool:
    """Whether `read` returns. Any error but a refusal is a defect, and is raised."""
    try:
        read()
    except refusals:
        return False
    return True


def judge_examples(grammar: Grammar, examples: int) -> None:
    """Judge the same ones each time."""
    _judge(grammar, examples, is_same_each_time=True)


def judge_for(grammar: Grammar, seconds: float) -> None:
    """Judge ever new ones."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        _judge(grammar, 500, is_same_each_time=False)


def _judge(grammar: Grammar, examples: int, *, is_same_each_time: bool) -> None:
    @settings(
        max_examples=examples,
        derandomize=is_same_each_time,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(grammar.drawn)
    def each(example: Any) -> None:
        grammar.judge(example)

    each()
