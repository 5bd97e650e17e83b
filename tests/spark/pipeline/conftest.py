"""A lake, and a server for commands that are stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_mq.pipeline.lake.lake import Lake
from tests.spark.pipeline.commands import CommandScene
from tests.support.processes import Server


@pytest.fixture
def scene(
    root: Path, tmp_path: Path, start_server: Callable[..., Server]
) -> Iterator[CommandScene]:
    made = CommandScene(tmp_path, root, start_server)
    yield made
    made.close()


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive hardly waits for one that fills its lake."""
    monkeypatch.setattr("pyspark_mq.pipeline.lake.lake._LOCK_SECONDS", 0.1)


@pytest.fixture
def make_lake(spark: Any, tmp_path: Path) -> Callable[[], Lake]:
    """`make_lake()` is what a new process has of the same lake."""
    checkpoint = tmp_path / "lake/_checkpoint"
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": "query-1"}))
    return lambda: Lake(spark, str(tmp_path / "lake"))
