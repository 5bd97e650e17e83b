"""requirements.lock: every package that MQ runs with, by hash, and no address to get it from."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tidy.sources import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
TEXT = (REPOSITORY / "requirements.lock").read_text()
ENTRIES = re.findall(
    r"^([a-z0-9-]+)==(\S+)(?: ; [^\\\n]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
    TEXT,
    re.MULTILINE,
)
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


def test_every_line_is_an_entry_with_its_hashes_or_a_comment() -> None:
    """So there is no index, no link and no option in it."""
    rest = TEXT
    for name, version, hashes in ENTRIES:
        rest = re.sub(
            rf"^{re.escape(name)}=={re.escape(version)}[^\n]*\n{re.escape(hashes)}", "", rest,
            count=1, flags=re.MULTILINE,
        )  # fmt: skip

    assert len(ENTRIES) >= len(PROJECT["dependencies"])
    assert [line for line in rest.splitlines() if not line.startswith("#")] == []


def test_no_address_stands_in_it() -> None:
    assert re.findall(r"://|--index|--find-links|--extra|@ |/simple|\.org|\.com", TEXT) == []
