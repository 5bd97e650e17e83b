"""A root with a queue, as a driver has it open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.spool.spool import Spool
from tests.support.spark_files import HookedFiles, visit_new_root


@pytest.fixture
def files() -> Files:
    return HookedFiles()


@pytest.fixture
def spool(root: Path, files: Files) -> Iterator[Spool]:
    opened = visit_new_root(root, files)
    yield opened
    opened.close()
