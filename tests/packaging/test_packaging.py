"""Wheel and sdist: built from the tracked files alone, installed, run.

Each Python that pyproject.toml names is tried, if it runs on this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from mq import __version__
from tests.support.mqctl import without_ours
from tests.support.native import can_compile
from tests.support.processes import LISTENING, wait_until
from tests.support.sources import PACKAGES, REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
VERSIONS = [
    classifier.rpartition(" ")[2]
    for classifier in PROJECT["classifiers"]
    if classifier.startswith("Programming Language :: Python :: 3.")
]

NATIVE_OR_NOT = "compiled" if can_compile() else "not-compiled"

pytestmark = pytest.mark.timeout(900)


def run(*command: str | Path, cwd: Path | None = None, **variables: str) -> str:
    """What a command prints, on both channels; it must succeed."""
    done = subprocess.run(
        command, check=False, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=without_ours() | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"} | variables,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def find_python(version: str) -> Path:
    """An interpreter of that version which runs: a name on PATH may be a shim that does not."""
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    folders += sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin"))
    for python in (Path(sys.executable), *(folder / f"python{version}" for folder in folders)):
        code = "import ensurepip, sys; print(*sys.version_info[:2], sep='.')"
        try:
            tried = subprocess.run([python, "-c", code], check=False, capture_output=True)
        except OSError:
            continue
        if tried.stdout.decode().strip() == version:
            return python
    pytest.skip(f"no python{version} with venv runs on this machine")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Packages can be had. Without a network these tests skip, but not in CI."""
    folder = tmp_path_factory.mktemp("index")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir",
               "--dest", str(folder), "click"]  # fmt: skip
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        reason = f"no package index can be reached: {done.stderr.strip().splitlines()[-1]}"
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)


@pytest.fixture(scope="module")
def copy(index: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean copy of what is tracked."""
    copy = tmp_path_factory.mktemp("copy")
    for name in tracked_files():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, target)
    return copy


@pytest.fixture(scope="module")
def archives(copy: Path) -> tuple[Path, Path]:
    """Wheel and sdist."""
    run(sys.executable, "-m", "build", "--outdir", copy / "made", copy)
    [wheel] = (copy / "made").glob("*.whl")
    [sdist] = (copy / "made").glob("*.tar.gz")
    return wheel, sdist


def tracked_files() -> list[str]:
    """The files that git tracks. It skips where there is no clone."""
    if shutil.which("git") is None:
        pytest.skip("git is missing: install the package git")
    if not (REPOSITORY / ".git").exists():
        pytest.skip("this is no clone: nothing says which files belong to it")
    listed = run("git", "-c", "safe.directory=*", "-C", REPOSITORY, "ls-files", "-z")
    return [name for name in listed.split("\0") if name and (REPOSITORY / name).exists()]


def install(python: Path, folder: Path, *what: str | Path) -> None:
    """Into the virtual environment `folder`, which is made if it is not there. It has no pip of its
    own: ours works for it, which saves making one. Of what is installed little is ever imported, so
    it is compiled then."""
    if not folder.exists():
        run(python, "-m", "venv", "--without-pip", folder)
    inside = folder / "bin" / "python"
    run(
        sys.executable, "-m", "pip", "--python", inside, "install", "--quiet", "--no-compile", *what
    )


def assert_serves(commands: Path, folder: Path, native_part: str | None = None) -> None:
    """The installed commands say their version, and the installed `mq` takes a message; it has
    the native part if this machine can compile."""
    versions = {name: f"{name} {__version__}" for name in PROJECT["scripts"]}
    versions["mq"] += f" (native part: {native_part or NATIVE_OR_NOT})"
    for name, version in versions.items():
        assert run(commands / name, "--version", cwd=folder) == f"{version}\n"
    log = folder / "mq.log"
    with log.open("wb") as stderr:
        server = subprocess.Popen(
            [commands / "mq", "--standalone", f"--root={folder / 'root'}", "--port=0"],
            stderr=stderr, cwd=folder,
        )  # fmt: skip
    try:
        wait_until(lambda: LISTENING.search(log.read_text()) or server.poll() is not None, 60)
        listening = LISTENING.search(log.read_text())
        assert listening, log.read_text()
        url = f"http://127.0.0.1:{listening[1]}/orders"
        code = (
            "import sys, urllib.request as u\n"
            "ask = lambda *a, **k: u.urlopen(u.Request(*a, **k), timeout=30)\n"
            f"assert ask({url!r}, method='PUT').status == 201\n"
            f"assert ask({url + '/messages'!r}, b'one').status == 201\n"
            f"assert ask({url + '/messages'!r}).read() == b'one'\n"
        )
        run(commands / "python", "-c", code)
    finally:
        server.terminate()
        assert server.wait(30) == 0


def test_wheel_holds_the_packages_their_types_and_the_licence(archives: tuple[Path, Path]) -> None:
    names = zipfile.ZipFile(archives[0]).namelist()

    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert f"mq_server-{__version__}.dist-info/licenses/LICENSE" in names
    assert {name.partition("/")[0] for name in names} == {
        *PACKAGES, f"mq_server-{__version__}.data", f"mq_server-{__version__}.dist-info",
    }  # fmt: skip


def test_wheel_installs_man_pages_and_completion_of_every_command(
    archives: tuple[Path, Path], tmp_path: Path
) -> None:
    """They are what the tree makes."""
    run(sys.executable, REPOSITORY / "manuals.py", tmp_path)
    made = {str(path.relative_to(tmp_path)): path.read_bytes()
            for path in tmp_path.rglob("*") if path.is_file()}  # fmt: skip
    beginning = f"mq_server-{__version__}.data/data/"

    with zipfile.ZipFile(archives[0]) as wheel:
        held = {name.removeprefix(beginning): wheel.read(name)
                for name in wheel.namelist() if name.startswith(beginning)}  # fmt: skip

    assert held == made
    assert {Path(name).stem for name in made if "/man1/" in name} == set(PROJECT["scripts"])


def test_image_gets_all_that_the_wheel_is_made_of(
    copy: Path, archives: tuple[Path, Path], tmp_path: Path
) -> None:
    """Without wheels in its context, the Dockerfile makes one of what .dockerignore lets in."""
    listed = (copy / ".dockerignore").read_text().splitlines()
    for name in (line[1:] for line in listed if line.startswith("!")):
        source, target = copy / name, tmp_path / "context" / name
        if source.is_dir():
            shutil.copytree(source, target)
        elif source.exists():
            target.parent.mkdir(exist_ok=True)
            shutil.copy(source, target)

    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, tmp_path / "context")

    [wheel] = tmp_path.glob("*.whl")
    names = (set(zipfile.ZipFile(each).namelist()) for each in (wheel, archives[0]))
    assert next(names) == next(names)


def test_wheel_fits_every_python_that_is_supported_if_it_is_compiled(
    archives: tuple[Path, Path],
) -> None:
    """A wheel that is not compiled fits every machine."""
    names = zipfile.ZipFile(archives[0]).namelist()

    expected = ["mq/disk/_native.abi3.so"] if NATIVE_OR_NOT == "compiled" else []
    assert [name for name in names if name.endswith(".so")] == expected
    tag = archives[0].stem.split("-", 2)[2]
    assert tag.startswith("cp311-abi3-linux_") if expected else tag == "py3-none-any"


def test_without_a_compiler_it_is_pure_python_and_serves(copy: Path, tmp_path: Path) -> None:
    """It is so even where a native part was compiled in place, perhaps on another machine."""
    left_over = copy / "mq" / "disk" / "_native.abi3.so"
    left_over.touch()
    try:
        run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, copy, CC="/no/compiler")
    finally:
        left_over.unlink()

    [wheel] = tmp_path.glob("*.whl")
    install(Path(sys.executable), tmp_path / "venv", wheel)

    assert wheel.name.endswith("-py3-none-any.whl")
    assert_serves(tmp_path / "venv" / "bin", tmp_path, "not-compiled")


def test_an_editable_install_compiles_in_place(copy: Path, tmp_path: Path) -> None:
    install(Path(sys.executable), tmp_path / "venv", "--no-deps", "--editable", copy)

    code = "from mq.disk import calls; print(calls.STATE)"
    stated = run(tmp_path / "venv" / "bin" / "python", "-c", code, cwd=tmp_path)
    assert stated == f"{NATIVE_OR_NOT}\n"


def test_wheel_keeps_the_java_of_spark_executable(archives: tuple[Path, Path]) -> None:
    mode = zipfile.ZipFile(archives[0]).getinfo("pyspark_mq/java/bin/java").external_attr >> 16

    assert mode & 0o111 == 0o111


def test_sdist_holds_what_is_tracked(archives: tuple[Path, Path]) -> None:
    with tarfile.open(archives[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert names >= set(tracked_files()) - {".gitignore"}


@pytest.mark.parametrize("version", VERSIONS)
def test_wheel_installs_and_serves(
    version: str, archives: tuple[Path, Path], tmp_path: Path
) -> None:
    python = find_python(version)

    install(python, tmp_path / "venv", archives[0])

    assert_serves(tmp_path / "venv" / "bin", tmp_path)


def test_sdist_installs_and_serves(archives: tuple[Path, Path], tmp_path: Path) -> None:
    install(Path(sys.executable), tmp_path / "venv", archives[1])

    assert_serves(tmp_path / "venv" / "bin", tmp_path)


def test_what_the_lock_file_names_is_all_that_it_takes(
    archives: tuple[Path, Path], tmp_path: Path
) -> None:
    """Every package by its hash, and nothing besides."""
    ours, venv = Path(sys.executable), tmp_path / "venv"
    install(ours, venv, "--require-hashes", "-r", REPOSITORY / "requirements.lock")
    install(ours, venv, "--no-deps", "--no-index", archives[0])

    run(ours, "-m", "pip", "--python", venv / "bin" / "python", "check")
    assert_serves(venv / "bin", tmp_path)
