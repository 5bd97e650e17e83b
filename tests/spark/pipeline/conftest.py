"""A server for commands that are stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.spark.pipeline.commands import CommandScene
from tests.support.processes import Server


@pytest.fixture
def scene(
    root: Path, tmp_path: Path, start_server: Callable[..., Server]
) -> Iterator[CommandScene]:
    made = CommandScene(tmp_path, root, start_server)
    yield made
    made.close()
