"""Each test that takes a `fault` runs with each of them."""

from __future__ import annotations

import pytest

from tests.crash.faults.errors import LONG, SHORT
from tests.crash.faults.kernel import Kernel


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault" in metafunc.fixturenames:
        is_long = metafunc.definition.get_closest_marker("crash_long") is not None
        long = [pytest.param(fault, marks=pytest.mark.crash_long) for fault in LONG]
        metafunc.parametrize("fault", SHORT if is_long else [*SHORT, *long], ids=str)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)
