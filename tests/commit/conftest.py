"""A committer on a root, with operations to run."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mq.spool.spool import Spool
from tests.support.commits import Bench, open_bench
from tests.support.faults import SuspiciousFiles, WatchedFiles


@pytest.fixture
def files() -> WatchedFiles:
    return SuspiciousFiles()


@pytest.fixture
async def bench(spool: Spool, files: WatchedFiles) -> AsyncIterator[Bench]:
    async with open_bench(spool, files) as made:
        yield made
