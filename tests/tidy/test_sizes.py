"""Files and functions stay small enough to be read at once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.sources import REPOSITORY, all_files, imports_of, module_name, nodes_of, parse

MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60

_PART = re.compile(r"_?(?:\d+|more|rest|part|extra|impl|internal|continued|other|[a-d]|two|ii)$")


def test_no_function_is_too_long() -> None:
    long = [
        f"{path.relative_to(REPOSITORY)}:{line} {name}: {length} lines"
        for path in all_files()
        for name, line, length in functions_of(path)
        if length > MAX_FUNCTION_LINES
    ]

    assert long == []


def test_no_file_is_too_long_nor_cut_in_two() -> None:
    long = [
        f"{' + '.join(str(path.relative_to(REPOSITORY)) for path in group)}: {lines} lines"
        for group in files_that_are_one(all_files(), REPOSITORY)
        if (lines := sum(len(path.read_text().splitlines()) for path in group)) > MAX_FILE_LINES
    ]

    assert long == []


def test_a_file_cut_in_two_is_recognised(tmp_path: Path) -> None:
    """A part is recognised by its name, or because one sibling alone imports it or passes all of
    its names on."""
    contents = {
        "store.py": "from store_files import open_files\nfrom storage import load\n",
        "store_files.py": "def open_files(): ...\n",
        "storage.py": "def load(): ...\n",
        "reaper.py": "from storage import load\n",
        "mover.py": "",
        "mover2.py": "",
        "_mover.py": "",
        "ready.py": "from ready_queue import Queue, Listing\n",
        "ready_queue.py": "class Queue: ...\nclass Listing: ...\n",
        "cli.py": "from ready_queue import Queue\n",
        "test_one.py": "",
        "test_one_more.py": "",
        "test_two_things.py": "",
    }
    for name, text in contents.items():
        (tmp_path / name).write_text(text)

    groups = files_that_are_one(sorted(tmp_path.iterdir()), tmp_path)

    assert sorted(sorted(path.name for path in group) for group in groups if len(group) > 1) == [
        ["_mover.py", "mover.py", "mover2.py"],
        ["ready.py", "ready_queue.py"],
        ["store.py", "store_files.py"],
        ["test_one.py", "test_one_more.py"],
    ]


def functions_of(path: Path) -> Iterator[tuple[str, int, int]]:
    """Name, first line and length of every function."""
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def files_that_are_one(paths: Iterable[Path], top: Path) -> list[list[Path]]:
    """The files in groups: usually each by itself, but what was only cut in two is together."""
    groups = [[path] for path in paths if path.name != "__init__.py"]
    importers: dict[str, set[Path]] = {}
    for [path] in groups:
        for module in imports_of(path, top):
            importers.setdefault(module, set()).add(path)
    for [path] in list(groups):
        for sibling in path.parent.glob("*.py"):
            if sibling != path and is_part_of(path, sibling, importers, top):
                merge(groups, path, sibling)
    return groups


def is_part_of(part: Path, whole: Path, importers: dict[str, set[Path]], top: Path) -> bool:
    if main_name(part) == main_name(whole):
        return True
    if not part.stem.strip("_").startswith(whole.stem.strip("_") + "_"):
        return False
    name = module_name(part, top)
    return importers.get(name) == {whole} or passes_on(whole, name, public_names(part))


def main_name(path: Path) -> str:
    """`store` of store.py, store2.py, store_more.py and _store.py."""
    return _PART.sub("", path.stem.strip("_"))


def public_names(path: Path) -> set[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {
        node.name
        for node in parse(path).body
        if isinstance(node, kinds) and not node.name.startswith("_")
    }


def passes_on(whole: Path, module: str, names: set[str]) -> bool:
    """Whether `whole` imports every one of a module's public names."""
    imported = {
        alias.name
        for node in nodes_of(whole)
        if isinstance(node, ast.ImportFrom) and node.module == module
        for alias in node.names
    }
    return bool(names) and names <= imported


def merge(groups: list[list[Path]], one: Path, other: Path) -> None:
    first = next(group for group in groups if one in group)
    second = next((group for group in groups if other in group), first)
    if first is not second:
        first += second
        groups.remove(second)
