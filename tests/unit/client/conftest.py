"""A clock that stands still, and what the requests of one client share."""

from __future__ import annotations

import pytest

from mq.client.own_ids import OwnIds
from mq.client.retries import Context
from tests.unit.client.played import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def context(clock: Clock) -> Context:
    return Context(60.0, 60.0, clock, lambda: False, OwnIds())
