"""docs/mqctl.md lists what there is, and its sessions print what it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from mq.command.running import HELP_FLAGS
from mq.config import MAX_VISIBILITY_SECONDS, MIB, ServerConfig
from mq.ctl.cli import CTL_EXIT_CODES, mqctl
from mq.fsck.suspect import SETTLE_SECONDS, FindingKind
from tests.support.mqctl import without_ours
from tests.support.processes import Server
from tests.support.sessions import ConsoleSession, read_sessions
from tests.support.sources import REPOSITORY, read_table

DOCUMENT = "docs/mqctl.md"
TEXT = (REPOSITORY / DOCUMENT).read_text()
EVERYWHERE = {"--url", "--token-file", "--cacert", "--root", "--json", "-h, --help"}


def flags_of(command: click.Command) -> set[str]:
    """Return the flags as a document writes them: short and long together."""
    context = click.Context(command, help_option_names=HELP_FLAGS)
    # `get_params` would have the names that another test has asked for first.
    helping = sorted(command.get_help_option_names(context), key=len)
    options = [each.opts for each in command.params if isinstance(each, click.Option)]
    return {", ".join(names) for names in [*options, helping]}


def test_every_command_is_listed_with_its_arguments() -> None:
    listed = {row[0] for row in read_table(DOCUMENT, "## Commands")}

    assert listed == {
        " ".join(["mqctl", name, *arguments_of(command)])
        for name, command in mqctl.commands.items()
    }


def arguments_of(command: click.Command) -> Iterator[str]:
    context = click.Context(command)
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            yield parameter.make_metavar(context)


def test_every_flag_is_listed() -> None:
    shared = {row[0]: row[1] for row in read_table(DOCUMENT, "## Flags of every command")}

    assert set(shared) == EVERYWHERE
    for name, command in mqctl.commands.items():
        own = flags_of(command) - EVERYWHERE
        heading = f"### {name}"
        listed = {row[0] for row in read_table(DOCUMENT, heading)} if own else set()
        assert listed == own, name
        assert flags_of(command) >= EVERYWHERE
    for parameter in mqctl.params:
        if isinstance(parameter, click.Option) and parameter.opts[0] in shared:
            assert shared[parameter.opts[0]] == (parameter.envvar or "none")


def test_every_exit_code_is_listed() -> None:
    listed = {int(code): meaning for code, meaning in read_table(DOCUMENT, "## Exit codes")}

    assert listed == CTL_EXIT_CODES


def test_every_kind_of_finding_is_listed() -> None:
    tables = TEXT[TEXT.index("### fsck") :]
    listed = re.findall(r"^\| `([a-z]+)` \|", tables, re.MULTILINE)

    assert listed == list(FindingKind)


@pytest.mark.parametrize(
    "words",
    [
        f"up to {MAX_VISIBILITY_SECONDS} (30 days)",
        f"at most {ServerConfig().max_body_bytes // MIB} MiB",
        f"or {ServerConfig().visibility_seconds:g} with `--root`",
        {2.0: "after two seconds"}[SETTLE_SECONDS],
    ],
)
def test_a_number_in_the_text_is_that_of_the_code(words: str) -> None:
    assert words in " ".join(TEXT.split())


def test_every_session_prints_what_the_document_shows(server: Server, tmp_path: Path) -> None:
    session = ConsoleSession(f"127.0.0.1:{server.port}", tmp_path, MQ_URL=server.url)
    steps = list(read_sessions(TEXT))

    for command, shown in steps:
        session.check(command, shown)

    assert len(steps) > 15


def test_the_lines_of_the_readme_work(start_server: Callable[..., Server]) -> None:
    server = start_server()
    readme = (REPOSITORY / "README.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    (lines,) = [block for block in blocks if "bin/mqctl" in block]
    script = lines.replace(".venv/bin/mqctl", f"{sys.executable} -m mq.ctl")
    script = script.replace("/tmp/mq", str(server.root))

    ran = subprocess.run(
        ["sh", "-e", "-c", script],
        env=without_ours() | {"MQ_URL": server.url},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert "two coffees" in ran.stdout
    assert "orders" in ran.stdout.splitlines()[-1]
