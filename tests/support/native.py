"""The native part, compiled for a test: as it is, under the address sanitizer, or on faults."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from mq.disk import calls
from tests.support.sources import REPOSITORY

SOURCE = REPOSITORY / "mq" / "disk" / "native.c"
FAULTS = REPOSITORY / "tests" / "support" / "native_faults.h"

_COMPILER = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
_INCLUDE = Path(sysconfig.get_paths()["include"])

OPTIONS_VARIABLE = "TEST_NATIVE_OPTIONS"
"""In the environment: what else the compiler is given."""

Strikes = Callable[[str], int]
"""Takes the name of a call of the kernel, or `malloc`; returns the errno it fails with, 0 for none,
-1 for a write of half."""


def can_compile() -> bool:
    """Return whether this machine has a compiler and the headers of this Python."""
    return shutil.which(_COMPILER[0]) is not None and (_INCLUDE / "Python.h").exists()


def compile_native(target: Path, *options: str) -> Path:
    """Compile the native part. Skips where that is not possible."""
    if not can_compile():
        pytest.skip("install a C compiler and the headers of this Python")
    options += tuple(shlex.split(os.environ.get(OPTIONS_VARIABLE, "")))
    command = [*_COMPILER, "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-shared", "-fPIC", *options,
               f"-I{_INCLUDE}", str(SOURCE), "-o", str(target)]  # fmt: skip
    subprocess.run(command, check=True)
    return target


def load_native(path: Path) -> ModuleType:
    loader = ExtensionFileLoader("_native", str(path))
    spec = spec_from_loader("_native", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@contextmanager
def used(module: ModuleType | None) -> Iterator[None]:
    """Let `calls.run` use this one, or none."""
    before, calls._native = calls._native, module
    try:
        yield
    finally:
        calls._native = before


@contextmanager
def struck(strikes: Strikes) -> Iterator[None]:
    """Let the native part on faults ask `strikes`."""
    sys.strikes = strikes  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del sys.strikes  # type: ignore[attr-defined]
