"""What the deployment tests start from: a small Debian with this machine's Python, and our wheels;
a docker of their own, with the image built.

No registry of images can be reached, so the base image is made here, and the Dockerfile is told
its name in place of the digest.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.docker import Docker
from tests.deploy.images import BASE_IMAGE, copy_tracked_files, make_wheels
from tests.deploy.running import require, run
from tests.support.mounts import LoopMount

SCRATCH_MEGABYTES = 12_000
"""At the most. A Debian and the image take one thousand, Spark's image four more."""

SUITE_FILE = Path("/etc/os-release")
LIBRARIES = ["libssl3", "libffi8", "libsqlite3-0", "zlib1g", "libbz2-1.0", "liblzma5"]
"""What the standard library's extensions of a Python from elsewhere need."""

NOT_COPIED = shutil.ignore_patterns("site-packages", "test", "tests", "__pycache__", "config-*",
                                    "idlelib", "tkinter", "turtledemo")  # fmt: skip


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An ext4 in memory. These tests write gigabytes that nobody needs afterwards: here that waits
    for no disk, and is gone with the mount."""
    require("mkfs.ext4", "mount")
    memory = tmp_path_factory.mktemp("memory", numbered=False)
    run("mount", "-t", "tmpfs", "-o", f"size={SCRATCH_MEGABYTES}m", "tmpfs", memory)
    try:
        mount = LoopMount("ext4", memory, SCRATCH_MEGABYTES)
        yield mount.path
        mount.unmount()
    finally:
        run("umount", "--lazy", memory)


@pytest.fixture(scope="session")
def debootstrap(scratch: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Makes the tree `debian` below `scratch` while others go on."""
    require("debootstrap")
    packages = ["systemd", "systemd-sysv", *LIBRARIES]
    if sys.base_prefix == "/usr":
        packages += ["python3", "python3-venv"]
    release = dict(
        line.split("=", 1) for line in SUITE_FILE.read_text().splitlines() if "=" in line
    )
    with (scratch / "debootstrap.log").open("wb") as log:
        process = subprocess.Popen(
            ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}",
             release["VERSION_CODENAME"], str(scratch / "debian")],
            stdout=log, stderr=log,
        )  # fmt: skip
    yield process
    process.kill()
    process.wait()


@pytest.fixture(scope="session")
def debian(scratch: Path, debootstrap: subprocess.Popen[bytes], wheels: Path) -> Path:
    """The root folder of a Debian with systemd and this machine's Python. The wheels are made
    meanwhile."""
    assert debootstrap.wait(400) == 0, (scratch / "debootstrap.log").read_text()
    tree = scratch / "debian"
    run("chroot", tree, "apt-get", "clean")
    if sys.base_prefix != "/usr":
        _copy_python(tree / "usr" / "local")
    return tree


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
def wheels(scratch: Path, debootstrap: subprocess.Popen[bytes]) -> Path:
    """Our wheel and those it needs, for this Python."""
    return make_wheels(scratch / "wheels", "")


@pytest.fixture(scope="session")
def docker(debian: Path, wheels: Path, scratch: Path) -> Iterator[Docker]:
    """With the image built, by the Dockerfile as it is, from a context with wheels."""
    require("dockerd", "docker-compose", "docker", "ip", "nsenter", "curl", "git")
    folder = scratch / "docker"
    folder.mkdir()
    docker = Docker(folder)
    try:
        archive = folder / "base.tar"
        run("tar", "--create", "--file", archive, "--directory", debian, ".")
        docker("import", "--change", "ENV PATH=/usr/local/bin:/usr/bin:/bin", archive, BASE_IMAGE)
        archive.unlink()
        copy_tracked_files(docker.context)
        shutil.copytree(wheels, docker.context / "wheels")
        docker("build", "--quiet", "--build-arg", f"PYTHON={BASE_IMAGE}", "--tag", "mq",
               docker.context)  # fmt: skip
        yield docker
    finally:
        docker.stop()
