"""How commands end: by signals, and by a defect."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import click
import pytest

from mq.command.running import run
from mq.errors import ExitCode
from pyspark_mq.pipeline.cli import mq_pipeline
from tests.support.processes import Process, wait_until
from vsqs.cli import vsqs


@pytest.mark.parametrize("module", ["mq_mover", "mq_reaper"])
def test_a_burst_of_signals_ends_it_with_exit_code_0_and_no_traceback(
    module: str, tmp_path: Path, processes: list[Process]
) -> None:
    """Ctrl-C reaches `mq --standalone` and its children, and the parent passes SIGTERM on."""
    for name in ("remove", "destination"):
        (tmp_path / name).mkdir()
    arguments = [f"--source={tmp_path}/remove"]
    if module == "mq_mover":
        arguments.append(f"--destination={tmp_path}/destination")
    process = Process(module, *arguments, log=tmp_path / "log")
    processes.append(process)
    wait_until(lambda: "event=configuration" in process.log(), 100)

    while process.popen.poll() is None:
        process.popen.send_signal(signal.SIGINT)
        process.popen.send_signal(signal.SIGTERM)
        time.sleep(0.0005)

    assert process.popen.returncode == 0
    assert "Traceback" not in process.log()


def test_a_defect_ends_a_command_with_its_own_exit_code(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["mq"])

    @click.command(name="mq")
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(SystemExit) as ended:
        run(broken)

    assert ended.value.code == ExitCode.SOFTWARE
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_command_without_a_thread_says_what_the_system_lacks(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["mq"])

    @click.command(name="mq")
    def crowded() -> None:
        before = threading.stack_size(1 << 46)  # more than there are addresses
        try:
            threading.Thread(target=print).start()
        finally:
            threading.stack_size(before)

    with pytest.raises(SystemExit) as ended:
        run(crowded)

    assert ended.value.code == ExitCode.SYSTEM
    assert "ulimit -u" in capfd.readouterr().err


@pytest.mark.parametrize("words", ["shop -h", "shop order -h"])
def test_a_command_shows_its_help_when_asked_in_short(
    words: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", words.split())
    order = click.Command("order")
    shop = click.Group("shop", commands=[order])

    with pytest.raises(SystemExit) as ended:
        run(shop)

    assert ended.value.code == ExitCode.OK
    shown = capfd.readouterr().out
    assert shown.startswith(f"Usage: {words.removesuffix(' -h')} ")
    assert "-h, --help" in shown


@pytest.mark.parametrize("words", ["shop --lamb", "shop order --lamb"])
def test_a_wrong_command_line_is_told_where_the_flags_are(
    words: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", words.split())

    with pytest.raises(SystemExit):
        run(click.Group("shop", commands=[click.Command("order")]))

    hint = f"(exit 2: see {words.removesuffix(' --lamb')} --help)"
    assert capfd.readouterr().err == f"shop: No such option '--lamb'. {hint}\n"


@pytest.mark.parametrize("group", [vsqs, mq_pipeline], ids=lambda group: str(group.name))
def test_a_command_without_its_subcommand_shows_its_help(
    group: click.Group, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [str(group.name)])

    with pytest.raises(SystemExit) as ended:
        run(group)

    assert ended.value.code == ExitCode.USAGE
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].startswith(f"Usage: {group.name} ")
    assert "Commands:" in lines
