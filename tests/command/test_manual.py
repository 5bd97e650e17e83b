"""The man pages: made from the definitions, and without an error of their form."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from mq import __version__
from mq.command.manual import man_page
from mq.ctl.cli import CTL_EXIT_CODES, mqctl
from pyspark_mq.pipeline.cli import mq_pipeline
from tests.support.sources import REPOSITORY
from vsqs.cli import vsqs

SCRIPTS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    subprocess.run([sys.executable, REPOSITORY / "manuals.py", folder], check=True)
    return folder / "share"


def require(program: str, package: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is missing: install the package {package}")


def test_every_command_has_a_page_and_completion_for_each_shell(share: Path) -> None:
    folders = {
        "man/man1": "{}.1",
        "bash-completion/completions": "{}",
        "zsh/site-functions": "_{}",
        "fish/vendor_completions.d": "{}.fish",
    }
    for folder, name in folders.items():
        assert {path.name for path in (share / folder).iterdir()} == {
            name.format(script) for script in SCRIPTS
        }


def test_the_pages_have_no_error_of_form(share: Path) -> None:
    require("mandoc", "mandoc")
    pages = sorted((share / "man/man1").iterdir())

    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *pages], check=False, capture_output=True,
        text=True,
    )  # fmt: skip

    # A page without a date is the same in each build.
    told = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert told == []


def test_man_shows_what_help_shows(share: Path) -> None:
    require("man", "man-db")
    done = subprocess.run(
        ["man", "-l", share / "man/man1/mqctl.1"], check=True, capture_output=True, text=True,
        env=os.environ | {"MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MANPAGER": "cat"},
    )  # fmt: skip

    shown = " ".join(re.sub("\u2010\\s+", "", done.stdout).split())
    assert done.stderr == ""
    for name, command in mqctl.commands.items():
        assert f"mqctl {name} " in shown
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.opts[-1] in shown
    for code, meaning in CTL_EXIT_CODES.items():
        assert f"{code.value} {meaning}" in shown


@pytest.mark.parametrize("command", [mqctl, mq_pipeline, vsqs], ids=lambda each: str(each.name))
def test_the_list_of_commands_cuts_no_sentence(command: click.Group) -> None:
    context = click.Context(command, terminal_width=80)
    _, _, listed = command.get_help(context).partition("\nCommands:\n")

    assert all(name in listed for name in command.commands)
    assert "..." not in listed


def test_text_is_no_markup() -> None:
    @click.command("odd", help=".TH is 'text', and so is \\fB.\n\n'br too.")
    @click.option("--a-b", help='.SH "quoted" \\n')
    def odd() -> None:
        pass

    page = man_page(odd, __version__)

    assert "\\&.TH is \\(aqtext\\(aq, and so is \\efB." in page
    assert "\\(aqbr too." in page
    assert "\\fB\\-\\-a\\-b TEXT\\fR\n\\&.SH \\(dqquoted\\(dq \\en" in page
