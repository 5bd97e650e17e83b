"""The native part of file calls, compiled for the tests, and a folder to make them in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.native import FAULTS, compile_native, load_native


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return load_native(compile_native(tmp_path_factory.mktemp("native") / "native.so"))


@pytest.fixture(scope="session")
def on_faults(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The native part, which asks before each call whether that fails."""
    target = tmp_path_factory.mktemp("native") / "faults.so"
    return load_native(compile_native(target, "-include", str(FAULTS)))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)
