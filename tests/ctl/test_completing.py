"""The tab key in bash, zsh and fish, with the scripts that a wheel installs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.mqctl import Ctl, without_ours
from tests.support.processes import Server
from tests.support.sources import REPOSITORY
from tests.support.terminal import TmuxScreen


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix with `bin/mqctl` and the folder `share` of a wheel."""
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run([sys.executable, REPOSITORY / "manuals.py", prefix], check=True)
    program = prefix / "bin" / "mqctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m mq.ctl "$@"\n')
    program.chmod(0o755)
    return prefix


@pytest.fixture
def environment(installed: Path, tmp_path: Path) -> dict[str, str]:
    """Return variables that lead to a root with some queues."""
    ctl = Ctl("--root", str(tmp_path / "mq"))
    for queue in ("orders", "orders.dead", "parcels"):
        ctl.ok("create", queue)
    return without_ours() | {
        "PATH": f"{installed / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "MQCTL_ROOT": str(tmp_path / "mq"),
        "HOME": str(tmp_path),
    }


def run(environment: Mapping[str, str], *command: str | Path) -> list[str]:
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"{command[0]} is missing: install the package {command[0]}")
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment,
                          timeout=60)  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()


LINES = {
    "mqctl pur": ["purge"],
    "mqctl info or": ["orders", "orders.dead"],
    "mqctl purge --re": ["--ready"],
    "mqctl set orders max": ["max-receives=", "max-messages="],
    "mqctl set orders max-receives=3 max": ["max-messages="],
    "mqctl send orders --also parcels,": ["parcels,orders", "parcels,orders.dead"],
}


def in_bash(installed: Path, environment: Mapping[str, str], line: str) -> list[str]:
    script = installed / "share/bash-completion/completions/mqctl"
    ask = (
        f"source {script}; read -ra COMP_WORDS <<< '{line}'\n"
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
        "$(complete -p mqctl | sed 's/.*-F \\([^ ]*\\).*/\\1/') mqctl\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return run(environment, "bash", "--norc", "-c", ask)


def in_fish(installed: Path, environment: Mapping[str, str], line: str) -> list[str]:
    script = installed / "share/fish/vendor_completions.d/mqctl.fish"
    found = run(environment, "fish", "--no-config", "-c", f"source {script}; complete -C '{line}'")
    return sorted(each.partition("\t")[0] for each in found)


@pytest.mark.parametrize("complete", [in_bash, in_fish])
@pytest.mark.parametrize("line", LINES)
def test_a_shell_completes_commands_queues_and_flags(
    installed: Path, environment: dict[str, str], line: str,
    complete: Callable[[Path, Mapping[str, str], str], list[str]],
) -> None:  # fmt: skip
    assert sorted(complete(installed, environment, line)) == sorted(LINES[line])


@pytest.mark.parametrize(
    ("words", "offers"),
    [("paused =", ["true", "false"]), ("paused = t", ["true"]), ("delay=5 paused = f", ["false"]),
     ("dead-letters = par", ["parcels"]), ("also = parcels,orders.", ["parcels,orders.dead"]),
     ("delay =", [])],
)  # fmt: skip
def test_bash_completes_the_value_of_a_setting(
    installed: Path, environment: dict[str, str], words: str, offers: list[str]
) -> None:
    """An equals sign is a word of its own to bash."""
    assert [
        each for each in in_bash(installed, environment, f"mqctl set orders {words}") if each
    ] == offers


def test_fish_completes_the_value_behind_a_flag(
    installed: Path, environment: dict[str, str]
) -> None:
    offers = in_fish(installed, environment, "mqctl send parcels --also=parcels,orders.")
    assert offers == ["--also=parcels,orders.dead"]


def test_fish_completes_the_value_of_a_setting(
    installed: Path, environment: dict[str, str]
) -> None:
    for typed, offers in {
        "paused=": ["paused=false", "paused=true"],
        "dead-letters=orders.": ["dead-letters=orders.dead"],
        "delay=": [],
    }.items():
        assert in_fish(installed, environment, f"mqctl set orders {typed}") == offers


@pytest.fixture
def zsh(installed: Path, environment: dict[str, str], tmp_path: Path) -> Iterator[TmuxScreen]:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is missing: install the package zsh")
    (tmp_path / ".zshrc").write_text(
        f"fpath=({installed / 'share/zsh/site-functions'} $fpath)\n"
        "autoload -Uz compinit; compinit -u\nPS1='ready> '\n"
    )
    screen = TmuxScreen(tmp_path, ["zsh", "-d", "-i"], environment)
    yield screen
    screen.close()


def test_zsh_completes_too(zsh: TmuxScreen) -> None:
    zsh.wait_for("ready>")

    zsh.type("mqctl pur", "Tab")
    zsh.wait_for("mqctl purge")
    zsh.type("par", "Tab")
    zsh.wait_for("mqctl purge parcels")
    zsh.type("--re", "Tab")
    zsh.wait_for("mqctl purge parcels --ready")
    zsh.type("C-u")
    zsh.type("mqctl set parcels vis", "Tab")
    zsh.wait_for("mqctl set parcels visibility=")
    zsh.type("60", "Space", "pau", "Tab")
    zsh.wait_for("mqctl set parcels visibility=60 paused=")
    zsh.type("f", "Tab")
    zsh.wait_for("visibility=60 paused=false")
    zsh.type("C-u")
    zsh.type("mqctl send parcels --also=orders.", "Tab")
    zsh.wait_for("mqctl send parcels --also=orders.dead")


def ask_for_queues(way: dict[str, str], *words: str, command: str = "peek") -> list[str]:
    asked = {"COMP_WORDS": " ".join(["mqctl", *words, command, ""]),
             "COMP_CWORD": str(len(f"{command} {' '.join(words)}".split()) + 1),
             "_MQCTL_COMPLETE": "bash_complete"}  # fmt: skip
    found = run(without_ours() | way | asked, sys.executable, "-m", "mq.ctl")
    return [each.partition(",")[2] for each in found if each]


def test_queues_come_from_the_way_in_that_the_line_names(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = start_server("--admin=127.0.0.1:0")
    by_http = Ctl("--url", server.url)
    by_http.ok("create", "parcels")

    found = ask_for_queues({"MQ_ADMIN": f"127.0.0.1:{server.admin_port}"})
    by_flag = ask_for_queues({}, command=f"top --admin 127.0.0.1:{server.admin_port}")

    assert found == by_flag == ["parcels"]
    assert ask_for_queues({}, "--root", str(server.root)) == ["parcels"]


def test_nothing_is_offered_and_nothing_said_where_nothing_answers(tmp_path: Path) -> None:
    # Where a server of this machine may listen by default is not asked.
    nowhere = {"MQCTL_ADMIN": "127.0.0.1:9"}
    unreadable = nowhere | {"MQCTL_TOKEN_FILE": "/absent"}
    assert ask_for_queues(nowhere, "--url", "http://127.0.0.1:9") == []
    assert ask_for_queues({}, "--root", str(tmp_path / "absent")) == []
    assert ask_for_queues(unreadable, "--url", "http://127.0.0.1:9") == []
    assert ask_for_queues({}, "--url", "http://127.0.0.1:9", "--root", str(tmp_path)) == []
