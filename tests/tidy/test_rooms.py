"""The folders of the house: each says what belongs in it, what does not, and what is where."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.sources import PACKAGES, REPOSITORY, package_files, parse, read_table

MOST_LOOSE_MODULES = 8
NEEDS_A_MAP = 7
"""From this many modules on, a folder's docstring names each of them."""

OURS = r"(?:pyspark_)?mq\w*"
"""The name of a package."""

ROOMS = sorted({path.parent for path in package_files()})


def what_is_said_of(room: Path) -> str:
    return ast.get_docstring(parse(room / "__init__.py")) or ""


def named_in(room: Path) -> list[str]:
    return re.findall(r"`(\w+)`", what_is_said_of(room))


def path_of(module: str) -> Path:
    return REPOSITORY / f"{module.replace('.', '/')}.py"


def modules_in(room: Path) -> list[str]:
    return sorted(path.stem for path in room.glob("*.py") if not path.stem.startswith("_"))


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(REPOSITORY)))
def test_a_folder_says_what_belongs_in_it_and_what_does_not(room: Path) -> None:
    said = " ".join(what_is_said_of(room).split())

    assert re.search(r"\bbelongs? (?:in|to|there)\b", said), said
    if len(modules_in(room)) >= NEEDS_A_MAP:
        assert [name for name in modules_in(room) if name not in named_in(room)] == []


def test_what_tests_share_has_a_map_of_just_what_is_there() -> None:
    support = REPOSITORY / "tests" / "support"

    assert sorted(named_in(support)) == modules_in(support)


@pytest.mark.parametrize("package", ["mq", "pyspark_mq"])
def test_few_modules_lie_outside_of_the_folders(package: str) -> None:
    assert len(modules_in(REPOSITORY / package)) <= MOST_LOOSE_MODULES


def test_each_folder_has_a_text() -> None:
    folders = {path.parent for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py")}

    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_the_table_of_what_happens_names_what_is_there() -> None:
    cells = [where for _, where in read_table("CONTRIBUTING.md", "## Where things happen")]
    modules = {name for cell in cells for name in re.findall(rf"\b{OURS}(?:\.\w+)+", cell)}
    functions = {found for cell in cells for found in re.findall(rf"(\w+) in ({OURS}[\w.]+)", cell)}

    assert [name for name in sorted(modules) if not path_of(name).exists()] == []
    assert [
        f"{module}: {function}"
        for function, module in sorted(functions)
        if f"def {function}(" not in path_of(module).read_text()
    ] == []
