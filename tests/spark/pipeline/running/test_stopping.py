"""A job ends by itself, or by a signal, which never interrupts the job itself."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_mq.pipeline.running.stopping import raise_on_signals, run_until_stopped
from tests.spark.pipeline.commands import Command
from tests.support.lone_root import Root
from tests.support.processes import wait_until


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    raise_on_signals()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_job_that_ends_gives_what_it_returns_or_raises() -> None:
    def fail() -> None:
        raise ValueError("why")

    assert run_until_stopped(lambda: 7, lambda: None) == 7
    with pytest.raises(ValueError, match="why"):
        run_until_stopped(fail, lambda: None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_the_job_to_stop_and_waits_for_its_last_words(number: signal.Signals) -> None:
    stopping, said = threading.Event(), []

    def work() -> None:
        os.kill(os.getpid(), number)
        stopping.wait()
        said.append("the last words")

    with pytest.raises(KeyboardInterrupt):
        run_until_stopped(work, stopping.set)

    assert said == ["the last words"]


def test_a_job_that_fails_because_it_was_stopped_was_interrupted() -> None:
    stopping = threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        stopping.wait()
        raise RuntimeError("cancelled")

    with pytest.raises(KeyboardInterrupt):
        run_until_stopped(work, stopping.set)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_stopped_while_its_jvm_starts_leaves_none(
    number: signal.Signals, root: Path, tmp_path: Path
) -> None:
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text(
        '#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "21"\' >&2; exit; fi\n'
        "touch starting\nexec sleep 1000\n"
    )
    java.chmod(0o755)
    Root(root).make("orders")
    command = Command(tmp_path, "report", f"--root={root}", JAVA_HOME=str(tmp_path))

    try:
        wait_until((tmp_path / "starting").exists, 60)
        os.kill(command.popen.pid, number)

        assert command.wait() == 130, command.end_of_log()
        said = command.log.read_text().splitlines()
        assert said[0] == "report: interrupted: run it again to go on"
    finally:
        command.kill()
