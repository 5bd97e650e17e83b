"""How long an operation tries again."""

from __future__ import annotations

import time
from itertools import count

import pytest

from mq.errors import StoreUnavailable
from mq.names import MessageId
from mq.store.patience import LEAST_TRIES, with_message


def test_it_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    patience = with_message(MessageId("own"))
    for _ in range(LEAST_TRIES + 100):
        patience.pause()

    now = 1.0
    with pytest.raises(StoreUnavailable, match="message own is held by another process"):
        patience.pause()


def test_time_alone_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may stand still between any two tries."""
    hours = count(0, 3600)
    monkeypatch.setattr(time, "monotonic", lambda: next(hours))
    patience = with_message(MessageId("own"))
    for _ in range(LEAST_TRIES - 1):
        patience.pause()

    with pytest.raises(StoreUnavailable):
        patience.pause()
