"""Where other machines may come in: with tokens, or if that is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mq.errors import ExitCode
from tests.support.processes import Process, Server, wait_until
from tests.support.refusals import start
from tests.support.token_files import make_token_file

StartServer = Callable[..., Server]


def test_bound_elsewhere_without_tokens_or_tls_is_one_warning(
    start_server: StartServer, tmp_path: Path
) -> None:
    tokens = make_token_file(tmp_path, "a read kT3vVt9xkq3mP2sYw8LrBg")
    wide = ("--insecure", "--address=127.0.0.1", "--admin=0.0.0.0:0")

    def warnings(*flags: str) -> list[str]:
        log = start_server(*flags).log()
        return [line for line in log.splitlines() if "open to other machines" in line]

    assert warnings("--admin=127.0.0.1:0") == []
    [line] = warnings(*wide)
    assert 'without="--token-file --cert"' in line
    [line] = warnings(*wide[1:], f"--token-file={tokens}")
    assert "without=--cert" in line


@pytest.mark.parametrize(
    "wide", ["--address=0.0.0.0", "--address=::", "--admin=0.0.0.0:0", "--admin=:0"]
)
def test_without_tokens_other_machines_come_in_only_where_that_is_said(
    start_server: StartServer, tmp_path: Path, wide: str
) -> None:
    root = tmp_path / "refused"
    if wide == "--address=::" and not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")

    refusal = start("mq", f"--root={root}", "--port=0", "--admin=", wide, MQ_INSECURE="0")

    assert refusal.exit_code == ExitCode.USAGE
    assert "give --token-file, or --insecure" in refusal.line
    assert not root.exists()


def test_a_variable_says_it_too(tmp_path: Path, processes: list[Process]) -> None:
    """The image sets this variable, and its log says so."""
    flags = [f"--root={tmp_path / 'root'}", "--port=0", "--admin="]
    server = Process("mq", *flags, log=tmp_path / "log", MQ_ADDRESS="0.0.0.0", MQ_INSECURE="1")
    processes.append(server)
    wait_until(lambda: "event=listening" in server.log())

    assert "open to other machines" in server.log()
