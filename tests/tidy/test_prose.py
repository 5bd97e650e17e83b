"""Phrases that a reader has to read twice, and what to write in their place."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import REPOSITORY, all_files, nodes_of, package_files

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

GOES_ON_FROM_THE_NAME = re.compile(
    # These begin no sentence of a docstring at all,
    r"(?:And|Or|But|Of|As|Also|Else|Even|None|Not|Raises)\b"
    # and these only one that has its main clause after a comma.
    r"|(?:After|At|Because|Before|Beside|By|For|From|If|In|Like|On|Once|To|Under|Unless|Until|Up"
    r"|While|With|Without)\b[^,]*?(?:[.;:](?:\s|$)|$)"
)
"""The beginning of a docstring that is not a sentence by itself: `As hold, in a folder`."""

OTHER_TEXTS = ["Makefile", "Dockerfile", "deploy/compose.yaml", "deploy/prometheus/mq.rules.yml"]


def documents() -> list[Path]:
    """All but the history, which is not written again."""
    found = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")]
    found += [REPOSITORY / "benchmarks" / "README.md", *(REPOSITORY / "deploy/systemd").glob("mq*")]
    found += [REPOSITORY / name for name in OTHER_TEXTS]
    return sorted(path for path in found if path.name != "CHANGELOG.md")


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_a_document_was_merged_to_its_end(path: Path) -> None:
    lines = path.read_text().splitlines()

    assert [line for line in lines if line.startswith(("<<<<<<< ", ">>>>>>> "))] == []


def found_in(text: str) -> list[str]:
    return [match[0] for match in SPOKEN.finditer(" ".join(text.split()))]


def strings_of(path: Path) -> Iterator[str]:
    """Docstrings and messages alike."""
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def docstrings_of(path: Path) -> Iterator[str]:
    """Yield all strings that are statements: docstrings, and those that follow a constant."""
    for node in nodes_of(path):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.value.value


def comments_of(path: Path) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def continues_the_name(docstring: str) -> bool:
    """Return whether it begins in the middle of a sentence, or with what the function raises."""
    return GOES_ON_FROM_THE_NAME.match(" ".join(docstring.split())) is not None


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_a_document_is_plain_english(path: Path) -> None:
    assert found_in(path.read_text()) == []


@pytest.mark.parametrize(
    "path", package_files(), ids=lambda path: str(path.relative_to(REPOSITORY))
)
def test_a_module_is_plain_english(path: Path) -> None:
    texts = {*strings_of(path), *comments_of(path)}

    assert {text: found for text in texts if (found := found_in(text))} == {}


def test_a_docstring_of_a_function_is_a_sentence_of_its_own() -> None:
    fragments = {
        f"{path.relative_to(REPOSITORY)}:{node.lineno}: {docstring}"
        for path in all_files()
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (docstring := ast.get_docstring(node)) is not None
        and continues_the_name(docstring)
    }

    assert fragments == set()


@pytest.mark.parametrize(
    ("docstring", "continues"),
    [
        ("As `hold`, in a folder of the root.", True),
        ("Of the body, in bytes.", True),
        ("None if it is gone.", True),
        ("Raises OSError.", True),
        ("Under its lease. Raises LeaseLost, if another one has it.", True),
        ("In a queue", True),
        ("With a reason, move it to the dead letters.", False),
        ("Return what `hold` returns.", False),
    ],
)
def test_a_fragment_is_found(docstring: str, continues: bool) -> None:
    assert continues_the_name(docstring) == continues


def test_comments_and_docstrings_of_tests_are_plain_english() -> None:
    found = {
        f"{path.relative_to(REPOSITORY)}: {text}"
        for path in sorted(set(all_files()) - set(package_files()))
        for text in (*docstrings_of(path), *comments_of(path))
        if found_in(text)
    }

    assert found == set()


@pytest.mark.parametrize(
    "text",
    ["parameter 'max' stands twice", "a name that is none", "'body' is no string", "So many files"],
)
def test_a_phrase_is_found(text: str) -> None:
    assert found_in(text)


def test_there_is_no_such_queue_is_good_english() -> None:
    assert found_in("there is no queue orders; the lease is no longer current") == []
