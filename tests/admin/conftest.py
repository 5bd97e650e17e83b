from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.browser import Browser, browsing
from tests.support.processes import Server


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """A window of 1280 pixels; no test leaves an error in its console."""
    chromium.widen(1280)
    chromium.errors()
    yield chromium
    errors = [each for each in chromium.errors() if "401" not in each and "ERR_" not in each]
    assert errors == []


@pytest.fixture
def server(start_server: Callable[..., Server]) -> Server:
    return start_server("--admin=127.0.0.1:0")


@pytest.fixture
def writable(start_server: Callable[..., Server]) -> Server:
    return start_server("--admin=127.0.0.1:0", "--admin-write")
