"""The files of the repository, for tests that look at all of them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PACKAGES = ("mq", "mq_mover", "mq_reaper", "mq_sqs", "pyspark_mq", "vsqs")


def package_files() -> list[Path]:
    """Return the Python files that are installed."""
    return [path for package in PACKAGES for path in python_files(REPOSITORY / package)]


def all_files() -> list[Path]:
    """Return the Python files of packages, tests and benchmarks."""
    others = [REPOSITORY / "tests", REPOSITORY / "benchmarks"]
    return package_files() + [path for folder in others for path in python_files(folder)]


def python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return the whole syntax of a file. To walk through it takes longer than what most tests do
    with what they find."""
    return tuple(ast.walk(parse(path)))


def module_name(path: Path, top: Path = REPOSITORY) -> str:
    """Return `mq.disk.files` for mq/disk/files.py, `mq.spool` for its `__init__.py`."""
    parts = path.relative_to(top).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path, top: Path = REPOSITORY) -> set[str]:
    """Return the modules that a file imports, also inside functions. Of `from package import
    module` that is the module, of `from module import name` the module."""
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            module = str(node.module)
            folder = top.joinpath(*module.split("."))
            for alias in node.names:
                is_module = (folder / f"{alias.name}.py").exists() or (
                    folder / alias.name / "__init__.py"
                ).exists()
                found.add(f"{module}.{alias.name}" if is_module else module)
    return found


def read_table(document: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its head. Backticks are
    dropped."""
    lines = (REPOSITORY / document).read_text().splitlines()
    start = lines.index(heading) + 1
    rows: list[list[str]] = []
    for line in lines[start:]:
        if line.startswith("|"):
            rows.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
        elif rows or line.startswith("#"):
            break
    return rows[2:]
