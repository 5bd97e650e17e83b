"""The lock files: every package that MQ runs with and is built by, by hash, no address to get it
from, and nothing that installs MQ without them."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.sources import REPOSITORY

SETTINGS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
PROJECT, BUILD_SYSTEM = SETTINGS["project"], SETTINGS["build-system"]
TEXT = (REPOSITORY / "requirements.lock").read_text()
BUILD_TEXT = (REPOSITORY / "requirements-build.lock").read_text()
ENTRY = re.compile(
    r"^([a-z0-9-]+)==(\S+)(?: ; [^\\\n]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
    re.MULTILINE,
)
ENTRIES = ENTRY.findall(TEXT)
LOCKED = {name: version for name, version, _ in ENTRIES}


def needed() -> dict[str, list[Requirement]]:
    """What pyproject.toml asks for, and what those ask for, as it is installed here."""
    found: dict[str, list[Requirement]] = {}
    waiting = [Requirement(text) for text in PROJECT["dependencies"]]
    while waiting:
        each = waiting.pop()
        name = canonicalize_name(each.name)
        if each.marker is not None and not each.marker.evaluate({"extra": ""}):
            continue
        if name not in found:
            try:
                waiting += [Requirement(text) for text in requires(name) or ()]
            except PackageNotFoundError:
                pytest.fail(f"{name} is not installed here")
        found.setdefault(name, []).append(each)
    return found


def test_every_dependency_is_locked_in_a_version_that_does() -> None:
    wrong = [
        str(requirement)
        for name, requirements in needed().items()
        for requirement in requirements
        if name not in LOCKED or not requirement.specifier.contains(LOCKED[name])
    ]

    assert wrong == [], "run make lock"


@pytest.mark.parametrize("text", [TEXT, BUILD_TEXT], ids=["run", "build"])
def test_every_line_is_an_entry_with_its_hashes_or_a_comment(text: str) -> None:
    """So there is no index, no link and no option in it."""
    rest = text
    for name, version, hashes in ENTRY.findall(text):
        rest = re.sub(
            rf"^{re.escape(name)}=={re.escape(version)}[^\n]*\n{re.escape(hashes)}", "", rest,
            count=1, flags=re.MULTILINE,
        )  # fmt: skip

    assert [line for line in rest.splitlines() if not line.startswith("#")] == []


def test_what_builds_mq_is_locked() -> None:
    """In a version that pyproject.toml takes, with what an editable installation needs."""
    locked = {name: version for name, version, _ in ENTRY.findall(BUILD_TEXT)}
    needed = map(Requirement, [*BUILD_SYSTEM["requires"], "editables"])

    assert [str(each) for each in needed if locked.get(each.name, "0") not in each.specifier] == []


@pytest.mark.parametrize("text", [TEXT, BUILD_TEXT], ids=["run", "build"])
def test_no_address_stands_in_it(text: str) -> None:
    assert re.findall(r"://|--index|--find-links|--extra|@ |/simple|\.org|\.com", text) == []


def recipes() -> dict[str, str]:
    """Everything that installs MQ for its users, by the place where it is written."""
    makefile = (REPOSITORY / "Makefile").read_text()
    return {
        "Makefile": makefile.partition("\n$(VENV)/installed: ")[2].partition("\n\n")[0],
        "Dockerfile": (REPOSITORY / "Dockerfile").read_text(),
        "docs/operations.md": shell_blocks("operations"),
        "docs/deploy.md": shell_blocks("deploy"),
    }


def shell_blocks(document: str) -> str:
    text = (REPOSITORY / "docs" / f"{document}.md").read_text()
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S))


@pytest.mark.parametrize("place", recipes())
def test_nothing_is_installed_but_by_its_hash(place: str) -> None:
    """MQ itself comes from its own folder, Spark from the extra that a user asks for."""
    lines = [line for line in recipes()[place].splitlines() if not line.startswith("#")]
    installs = [line for line in lines if re.search(r"(pip|PIP\)) (install|wheel) ", line)]

    assert any("--require-hashes" in line for line in installs)
    assert [
        line
        for line in installs
        if "--require-hashes" not in line and "--no-deps" not in line and "EXTRAS" not in line
    ] == []
    assert not [line for line in installs if line.endswith(" .") and "--no-build-iso" not in line
                and "wheel" not in line]  # fmt: skip


def test_base_images_are_named_by_their_digest() -> None:
    dockerfile = (REPOSITORY / "Dockerfile").read_text()
    compose = (REPOSITORY / "deploy" / "compose.yaml").read_text()
    images = re.findall(r"^ARG PYTHON=(.*)$", dockerfile, re.MULTILINE)
    images += re.findall(r"^FROM (.*?)(?: AS .*)?$", dockerfile, re.MULTILINE)
    images += [each for each in re.findall(r"image: (\S+)", compose) if each[:2] != "mq"]

    digest = re.compile(r"[a-z/]+:[0-9a-z.-]+@sha256:[0-9a-f]{64}|\$\{PYTHON\}")
    assert len(images) == 4
    assert [image for image in images if not digest.fullmatch(image)] == []
