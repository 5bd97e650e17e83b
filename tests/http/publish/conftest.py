from __future__ import annotations

import pytest

from tests.support.wire import Wire


@pytest.fixture
def source(wire: Wire, queue: str) -> str:
    """A second queue."""
    wire.request("PUT", f"/{queue}.src")
    return f"{queue}.src"
