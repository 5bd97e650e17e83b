"""A process that waits for its folder says so."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mq.command import waits
from mq.command.waits import telling_of_a_wait


def test_who_waits_for_a_folder_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, dict[str, str]]] = []
    is_told = threading.Event()

    class LogOfWaits:
        def warning(self, event: str, **fields: str) -> None:
            told.append((event, fields))
            is_told.set()

    monkeypatch.setattr(waits, "log", LogOfWaits())
    with telling_of_a_wait(Path("/srv/mq"), "nothing"):
        pass
    monkeypatch.setattr(waits, "SLOW_SECONDS", 0.01)
    with telling_of_a_wait(Path("/srv/mq"), "an answer"):
        assert is_told.wait(30)

    assert told == [("not open yet", {"folder": "/srv/mq", "waits_for": "an answer"})]
    assert not any(isinstance(each, threading.Timer) for each in threading.enumerate())
