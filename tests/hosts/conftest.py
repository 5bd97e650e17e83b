from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.caching import CACHED_SECONDS, CachingMounts, Mount, missing


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    why = missing()
    if why is not None:
        pytest.skip(why)
    made: list[CachingMounts] = []

    def make(changes_on_lost: int, cached_seconds: float = CACHED_SECONDS) -> CachingMounts:
        made.append(CachingMounts(tmp_path, changes_on_lost, cached_seconds))
        return made[-1]

    yield make
    for each in made:
        each.close()
