"""docs/vsqs.md lists what there is, its sessions print what it shows, its Python runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.support.flags import options_of
from tests.support.sessions import ConsoleSession, read_sessions
from tests.support.sources import REPOSITORY, read_table
from vsqs import limits
from vsqs.arguments import EXIT_CODES
from vsqs.cli import vsqs
from vsqs.pump import vsqspump
from vsqs.queue import Queue
from vsqs.sink import vsqssink

pytestmark = pytest.mark.slow

DOCUMENT = "docs/vsqs.md"
TEXT = (REPOSITORY / DOCUMENT).read_text()
COMMANDS: dict[str, click.Command] = {
    **{f"vsqs {name}": command for name, command in vsqs.commands.items()},
    "vsqspump": vsqspump,
    "vsqssink": vsqssink,
}


def test_every_session_prints_what_the_document_shows(tmp_path: Path) -> None:
    session = ConsoleSession("", tmp_path)
    steps = list(read_sessions(TEXT))

    for command, shown in steps:
        session.check(command, shown)

    assert len(steps) >= 15


def test_the_python_of_the_document_runs(tmp_path: Path) -> None:
    [block] = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)

    exec(block.replace("/srv", str(tmp_path)), {})

    with Queue(tmp_path / "orders") as queue:
        assert queue.size() == 0


def test_the_lines_of_the_readme_work(tmp_path: Path) -> None:
    readme = (REPOSITORY / "README.md").read_text()
    [lines] = [b for b in re.findall(r"```sh\n(.*?)```", readme, re.DOTALL) if "bin/vsqs" in b]
    script = lines.replace(".venv/bin/vsqs", f"{sys.executable} -m vsqs")

    ran = subprocess.run(
        ["sh", "-e", "-c", script.replace("/tmp/orders", str(tmp_path / "orders"))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("two coffees1\n")


def test_every_command_is_listed_with_its_arguments() -> None:
    listed = {row[0] for row in read_table(DOCUMENT, "## Commands")}

    assert listed == {
        " ".join(
            [name]
            + [
                argument.make_metavar(click.Context(command))
                for argument in command.params
                if isinstance(argument, click.Argument)
            ]
        )
        for name, command in COMMANDS.items()
    }


def test_every_flag_is_listed_with_the_commands_that_have_it() -> None:
    rows = read_table(DOCUMENT, "### Flags")
    listed = {row[0]: set(COMMANDS) if row[1] == "all" else set(row[1].split(", ")) for row in rows}
    found: dict[str, set[str]] = {}
    for name, command in COMMANDS.items():
        for option in options_of(command):
            found.setdefault(", ".join(option.opts), set()).add(name)

    assert listed == found


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_each_flag_does(name: str) -> None:
    command = COMMANDS[name]

    text = " ".join(command.get_help(click.Context(command)).split())

    for option in options_of(command):
        assert option.opts[0] in text
        assert option.help


def test_every_exit_code_is_listed() -> None:
    listed = {int(code): meaning for code, meaning in read_table(DOCUMENT, "### Exit codes")}

    assert listed == EXIT_CODES
    for command in (vsqs, vsqspump, vsqssink):
        text = command.get_help(click.Context(command))
        for code, meaning in EXIT_CODES.items():
            assert f"{code.value:>4}  {meaning}" in text


@pytest.mark.parametrize(
    "words",
    [
        f"not written to for {limits.NEW_SECONDS:g} seconds",
        {1.0: "set back by more than a second"}[limits.MAX_LEAD_SECONDS],
        {1.0: "looks by itself every second"}[limits.RESCAN_SECONDS],
    ],
)
def test_a_number_in_the_text_is_that_of_the_code(words: str) -> None:
    assert words in " ".join(TEXT.split())
