"""A visitor on a root."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mq.ctl.ways.by_root import RootAccess
from mq.spool.spool import Spool
from tests.support.faults import WatchedFiles


@pytest.fixture
def access(spool: Spool, root: Path, files: WatchedFiles) -> Iterator[RootAccess]:
    """A visitor on the root of `spool`, on both kinds of file system."""
    opened = RootAccess(root, type(files)())
    yield opened
    opened.close()
