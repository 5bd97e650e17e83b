"""The roots of a staging, and what fetches into one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mq.disk.files import Files
from mq.spool.spool import Spool
from pyspark_mq.by_url.intake import Intake
from pyspark_mq.by_url.staging import open_staging
from tests.support.url_site import UrlSite


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


@pytest.fixture
def start_intake(site: UrlSite) -> Iterator[Callable[..., Intake]]:
    """`start_intake()` is what a new driver has."""
    started: list[Intake] = []

    def start(files: Files | None = None) -> Intake:
        intake = Intake(site.prepare("in"), site.addresses(retry_seconds=0.2), ["orders"], files)
        started.append(intake)
        intake.require_queues()
        return intake

    yield start
    for intake in started:
        intake.close()
