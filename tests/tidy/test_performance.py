"""docs/performance.md: its figures are those of its JSON, and its commands are there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache

import pytest

from tests.support.sources import REPOSITORY, read_table

DOCUMENT = "docs/performance.md"
TEXT = (REPOSITORY / DOCUMENT).read_text()
FIGURES = "docs/performance.json"


def output_of(*words: str) -> str:
    command = [sys.executable, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=REPOSITORY)
    return done.stdout


@cache
def options_of(script: str) -> set[str]:
    """Return the options of a script, except `--help`."""
    return set(re.findall(r"^ +(--[a-z-]+)", output_of(script, "--help"), re.MULTILINE)) - {
        "--help"
    }


def commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_the_tables_are_those_of_the_json() -> None:
    assert output_of("benchmarks/report.py", FIGURES).strip() in TEXT


def test_the_picture_is_that_of_the_json() -> None:
    picture = (REPOSITORY / "docs/performance.svg").read_text()

    assert output_of("benchmarks/plot.py", FIGURES) == picture


def test_every_option_of_make_bench_is_listed() -> None:
    listed = {re.split("[ =]", row[0])[0] for row in read_table(DOCUMENT, "## Measure it yourself")}

    assert listed == options_of("benchmarks/bench.py")


@pytest.mark.parametrize("command", commands())
def test_a_command_is_there_with_its_options(command: str) -> None:
    words = shlex.split(command.partition(" > ")[0])
    if words[0] == "make":
        assert f"\n{words[1]}: " in (REPOSITORY / "Makefile").read_text()
        words = ["benchmarks/bench.py", *shlex.split("".join(words[2:]).partition("=")[2])]
    for script in (word for word in words if word.endswith(".py")):
        assert (REPOSITORY / script).exists()
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used == set() or used <= options_of(script)
