"""A short run, with everything that `make soak` has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.soak.run import soak


def test_nothing_is_lost_doubled_torn_or_reordered_whatever_goes_wrong(
    loop_mount: Callable[..., Path], tmp_path: Path
) -> None:
    disk = loop_mount("ext4", 256)
    logs = tmp_path / "logs"
    logs.mkdir()

    outcome = soak(disk / "root", logs, "short", 15)

    assert outcome.failures() == []
    assert outcome.answered.keys() >= {"publish", "receive", "remove", "renew", "release"}
    assert sum(outcome.struck.values()) > 3


@pytest.mark.crash_long
def test_nothing_goes_wrong_for_longer(loop_mount: Callable[..., Path], tmp_path: Path) -> None:
    disk = loop_mount("ext4", 256)
    logs = tmp_path / "logs"
    logs.mkdir()

    outcome = soak(disk / "root", logs, "long", 600)

    assert outcome.failures() == []
    assert outcome.growth is not None
