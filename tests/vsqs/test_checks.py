"""Arguments that make no sense are refused by their names, and nothing is done."""

from __future__ import annotations

import os
from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from vsqs.queue import Queue

OF_WRONG_TYPES: dict[str, Callable[[Any], object]] = {
    "data: a message is bytes, not str; encode": lambda queue: queue.publish("two coffees"),
    "data: a message is bytes, not NoneType$": lambda queue: queue.publish(None),
    "timeout '5': give seconds": lambda queue: queue.publish(b"", timeout="5"),
    "timeout '6': give seconds": lambda queue: queue.receive(timeout="6"),
    "visibility_timeout None: give seconds": lambda queue: queue.receive(None, timeout=0),
}
NOT_NUMBERS: dict[str, Callable[[Queue], object]] = {
    "^timeout nan": lambda queue: queue.publish(b"", timeout=nan),
    "timeout nan": lambda queue: queue.receive(timeout=nan),
    "visibility_timeout nan": lambda queue: queue.receive(nan, timeout=0),
    "visibility_timeout inf: seconds": lambda queue: queue.receive(inf, timeout=0),
}


@pytest.mark.parametrize("told", OF_WRONG_TYPES)
def test_an_argument_of_the_wrong_type_is_reported_by_its_name(tmp_path: Path, told: str) -> None:
    with Queue(tmp_path) as queue, pytest.raises(TypeError, match=told):
        OF_WRONG_TYPES[told](queue)

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("told", NOT_NUMBERS)
def test_seconds_without_a_value_are_reported_by_their_name(tmp_path: Path, told: str) -> None:
    with Queue(tmp_path) as queue:
        queue.publish(b"first")
        with pytest.raises(ValueError, match=told):
            NOT_NUMBERS[told](queue)

        assert queue.size() == 1


@pytest.mark.parametrize(
    ("capacity", "error"), [("5", TypeError), (1.5, TypeError), (-1, ValueError)]
)
def test_a_capacity_is_a_number_of_messages(
    tmp_path: Path, capacity: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=f"capacity {capacity!r}: give"):
        Queue(tmp_path / "new", capacity)

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", [None, 5, b"new"])
def test_a_path_is_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(TypeError, match=f"path {path!r}: give"):
        Queue(path)

    assert os.listdir(tmp_path) == []
