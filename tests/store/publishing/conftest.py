"""What the operations of publishes are."""

from __future__ import annotations

import pytest

from mq.commit.operation import Submitted
from tests.support.submits import note_operations


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[Submitted]:
    """The operations of publishes."""
    return note_operations(monkeypatch, "publish_one", "publish_each")
