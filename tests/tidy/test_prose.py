"""Phrases that a reader has to read twice, and what to write in their place."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import REPOSITORY, package_files

INSTEAD = {
    r"\bwhoever\b": "name who it is: the receiver, the next process; or 'anyone who'",
    r"\bsomebody\b": "name who it is: another process, receiver or user",
    r"\bso many\b": "'this many', or what the number counts",
    r"\banew\b": "'again'",
    r"(?<!there )\bis no (?!longer\b|more\b)": "'is not a', or 'must be'",
    r"\bstands (?:twice|behind|alone)\b": "'is given twice', 'follows'",
    r"\bgiven out\b": "'delivered'",
    r"\bof ours\b": "'of MQ', or name whose it is",
    r"(?-i:\bthat is none\b)": "say what is wrong with it: 'malformed', 'missing'",
}
SPOKEN = re.compile("|".join(INSTEAD), re.IGNORECASE)

NOT_YET = {"mq/store", "mq/commit"}
"""Folders whose docstrings and comments are still to be rewritten; their messages are held."""

OTHER_TEXTS = ["Makefile", "Dockerfile", "deploy/compose.yaml", "deploy/prometheus/mq.rules.yml"]


def documents() -> list[Path]:
    """All but the history, which is not written again."""
    found = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")]
    found += [REPOSITORY / "benchmarks" / "README.md", *(REPOSITORY / "deploy/systemd").glob("mq*")]
    found += [REPOSITORY / name for name in OTHER_TEXTS]
    return sorted(path for path in found if path.name != "CHANGELOG.md")


def found_in(text: str) -> list[str]:
    return [match[0] for match in SPOKEN.finditer(" ".join(text.split()))]


def strings_of(path: Path) -> Iterator[str]:
    """Docstrings and messages alike."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def docstrings_of(path: Path) -> set[str]:
    return {
        statement.value.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in node.body
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    }


def comments_of(path: Path) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def is_rewritten(path: Path) -> bool:
    return str(path.parent.relative_to(REPOSITORY)) not in NOT_YET


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_a_document_is_plain_english(path: Path) -> None:
    assert found_in(path.read_text()) == []


@pytest.mark.parametrize(
    "path", package_files(), ids=lambda path: str(path.relative_to(REPOSITORY))
)
def test_a_module_is_plain_english(path: Path) -> None:
    texts = set(strings_of(path))
    texts = texts | set(comments_of(path)) if is_rewritten(path) else texts - docstrings_of(path)

    assert {text: found for text in texts if (found := found_in(text))} == {}


@pytest.mark.parametrize(
    "text",
    ["parameter 'max' stands twice", "a name that is none", "'body' is no string", "So many files"],
)
def test_a_phrase_is_found(text: str) -> None:
    assert found_in(text)


def test_there_is_no_such_queue_is_good_english() -> None:
    assert found_in("there is no queue orders; the lease is no longer current") == []
