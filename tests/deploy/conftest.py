"""What the deployment tests start from: a small Debian with this machine's Python, and our wheels.

No registry of images can be reached, so the base image is made here, under the name that the
Dockerfile asks for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.sources import REPOSITORY

SUITE_FILE = Path("/etc/os-release")
LIBRARIES = ["libssl3", "libffi8", "libsqlite3-0", "zlib1g", "libbz2-1.0", "liblzma5"]
"""What the standard library's extensions of a Python from elsewhere need."""

NOT_COPIED = shutil.ignore_patterns("site-packages", "test", "tests", "__pycache__", "config-*",
                                    "idlelib", "tkinter", "turtledemo")  # fmt: skip


def run(*command: str | Path, **more: object) -> str:
    """Run a command that must succeed; returns what it printed."""
    done = subprocess.run(
        [str(word) for word in command], check=False, capture_output=True, text=True, timeout=400,
        **more,  # type: ignore[call-overload]
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return str(done.stdout)


def require(*programs: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("containers need root")
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}")


@pytest.fixture(scope="session")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root folder of a Debian with systemd and this machine's Python."""
    require("debootstrap")
    tree = tmp_path_factory.mktemp("debian", numbered=False) / "tree"
    packages = ["systemd", "systemd-sysv", *LIBRARIES]
    if sys.base_prefix == "/usr":
        packages += ["python3", "python3-venv"]
    release = dict(
        line.split("=", 1) for line in SUITE_FILE.read_text().splitlines() if "=" in line
    )
    run("debootstrap", "--variant=minbase", f"--include={','.join(packages)}",
        release["VERSION_CODENAME"], tree)  # fmt: skip
    if sys.base_prefix != "/usr":
        _copy_python(tree / "usr" / "local")
    yield tree
    shutil.rmtree(tree, ignore_errors=True)


def _copy_python(target: Path) -> None:
    base, version = Path(sys.base_prefix), f"python{sys.version_info[0]}.{sys.version_info[1]}"
    shutil.copy2(base / "bin" / version, target / "bin" / version)
    for name in ("python", "python3"):
        (target / "bin" / name).symlink_to(version)
    shutil.copytree(base / "lib" / version, target / "lib" / version, ignore=NOT_COPIED,
                    dirs_exist_ok=True, symlinks=True)  # fmt: skip
    (target / "lib" / version / "site-packages").mkdir()
    for library in (base / "lib").glob("libpython*.so*"):
        shutil.copy2(library, target / "lib" / library.name)
    run("ldconfig", "-r", target.parent.parent)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our wheel and those it needs, for this Python."""
    folder = tmp_path_factory.mktemp("wheels", numbered=False)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", folder, REPOSITORY)
    return folder
