"""What these tests have parsed ends with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.sources import parse


@pytest.fixture(scope="package", autouse=True)
def parsed() -> Iterator[None]:
    """The syntax of all files is a million objects. As long as they are there, a test that collects
    garbage takes half a second for each time."""
    yield
    parse.cache_clear()
