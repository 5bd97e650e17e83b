"""What these tests have parsed ends with them."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.support.sources import nodes_of, parse


@pytest.fixture(scope="package", autouse=True)
def parsed() -> Iterator[None]:
    """The syntax of all files is a million objects. As long as they are there, a test that collects
    garbage takes half a second for each time. None is collected here."""
    gc.disable()
    yield
    nodes_of.cache_clear()
    parse.cache_clear()
    gc.enable()
