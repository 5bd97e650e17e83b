"""What `mqctl` loads: no more than the command needs."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        # A shell calls `mqctl` at each tab.
        ("mq.ctl.cli", {"asyncio", "structlog", "http.client", "mq.disk.files", "mq.store"}),
        (
            "mq.ctl.ways.by_http",
            {"asyncio", "structlog", "aiohttp", "mq.spool", "mq.store", "mq.web"},
        ),
        ("mq.ctl.commands.checking", {"aiohttp", "aiofiles", "mq.commit", "mq.store", "mq.web"}),
        ("mq.ctl.ways.by_root", {"aiohttp", "uvloop"}),
    ],
)
def test_importing_a_part_of_mqctl_loads_no_more_than_it_needs(
    module: str, unwanted: set[str]
) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert set(done.stdout.split()) & unwanted == set()
