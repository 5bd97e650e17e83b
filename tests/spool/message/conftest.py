"""A root on which chains of file calls run in both ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mq.disk import calls
from mq.disk.files import Files
from mq.spool.root import open_root
from mq.spool.spool import Spool


@pytest.fixture(params=["native", "python"])
def either_spool(
    root: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Spool]:
    """A new root, whose chains run in the native part, if that is built, and in Python."""
    if request.param == "python":
        monkeypatch.setattr(calls, "_native", None)
    with closing(open_root(root, 0o700, Files())[0]) as spool:
        yield spool
