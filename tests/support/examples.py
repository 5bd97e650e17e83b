"""The programs of `examples`, as a test runs or loads them."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

from mq.client import Queue
from tests.support.sources import REPOSITORY

EXAMPLES = REPOSITORY / "examples"


def run_example(environment: dict[str, str], *command: str, folder: Path = REPOSITORY) -> str:
    done = subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_empty(queue: Queue) -> bool:
    return queue.counts()[1:4] == (0, 0, 0)
