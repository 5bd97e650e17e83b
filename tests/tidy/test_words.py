"""One word for one thing: the glossary of CONTRIBUTING.md, and the names of classes."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.support.sources import (
    REPOSITORY,
    all_files,
    module_name,
    nodes_of,
    package_files,
    read_table,
)

ONE_ERROR_ON_BOTH_SIDES = {
    "BodyTooLarge", "Forbidden", "IdTaken", "MessageNotFound", "QueueNotFound", "TooOld",
    "Unauthorized",
}  # fmt: skip
"""What a server raises and answers as a problem, and what a client raises for that problem."""

TWO_LIBRARIES = {"Queue"}
"""Programs import it, from `mq.client` or from `vsqs`, and never both."""


def classes_in(paths: list[Path]) -> dict[str, list[str]]:
    """The modules of each class."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module_name(path))
    return found


def glossary() -> dict[str, set[str]]:
    """The classes of each word, as `MODULE.CLASS`."""
    rows = read_table("CONTRIBUTING.md", "## Words")
    return {word: set(classes.split(", ")) - {""} for word, _, classes in rows}


def test_a_class_name_is_there_once() -> None:
    files = [path for path in all_files() if path.relative_to(REPOSITORY).parts[0] != "benchmarks"]
    twice = {name: modules for name, modules in classes_in(files).items() if len(modules) > 1}

    assert twice.keys() == ONE_ERROR_ON_BOTH_SIDES | TWO_LIBRARIES, twice


def test_a_word_of_the_glossary_has_the_classes_that_it_names() -> None:
    """No other class has the word for its name, either."""
    classes = classes_in(package_files())
    there = {
        word: {f"{module}.{name}" for name in names for module in classes.get(name, ())}
        for word, names in class_names().items()
    }

    assert there == glossary()


def class_names() -> dict[str, set[str]]:
    """The names that a class of each word would have, and those that the glossary gives it."""
    return {
        word: {each.title().replace(" ", "") for each in word.split(", ")}
        | {name.rpartition(".")[2] for name in named}
        for word, named in glossary().items()
    }


def test_a_word_is_explained_once() -> None:
    words = [
        word for row in read_table("CONTRIBUTING.md", "## Words") for word in row[0].split(", ")
    ]

    assert len(words) == len(set(words))
