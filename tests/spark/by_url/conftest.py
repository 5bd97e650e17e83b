"""A server in memory, and a staging beside its root."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.spool.folders import Spool
from pyspark_mq.by_url.staging import open_staging
from tests.support.processes import Server
from tests.support.url_site import UrlSite


@pytest.fixture
def site(root: Path, start_server: Callable[..., Server]) -> Iterator[UrlSite]:
    made = UrlSite(start_server("--visibility=3600", root=root), root.parent / "staging")
    yield made
    made.mq.close()


@pytest.fixture
def open_in(site: UrlSite) -> Iterator[Callable[..., Spool]]:
    """`open_in("in")` opens the staging's root of a direction."""
    opened: list[Spool] = []

    def open_(direction: str, files: Files | None = None) -> Spool:
        opened.append(open_staging(site.prepare(direction), files or Files()))
        return opened[-1]

    yield open_
    for spool in opened:
        spool.close()
