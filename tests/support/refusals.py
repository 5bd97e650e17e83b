"""Processes that refuse to start: their one line on stderr and their exit code."""

from __future__ import annotations

import os
import subprocess
from tempfile import TemporaryFile
from typing import NamedTuple

from mq.command.running import EXIT_CODES
from mq.errors import ExitCode
from tests.support.mqctl import assert_exit_named, without_ours
from tests.support.preloaded import run_preloaded


class Refusal(NamedTuple):
    exit_code: int
    line: str


def start(module: str, *arguments: str, **environment: str) -> Refusal:
    """Start a process that ends by itself."""
    with TemporaryFile() as stderr, open(os.devnull, "r+b") as null:
        files = (null.fileno(), null.fileno(), stderr.fileno())
        env = without_ours() | environment
        code = run_preloaded(module, *arguments, files=files, env=env, seconds=60)
        stderr.seek(0)
        return _read(code, stderr.read().decode())


def refusal_of(command: list[str], environment: dict[str, str]) -> Refusal:
    """Return the one line that is not an event of the log. It must be the last one, and name the
    exit code."""
    done = subprocess.run(
        command, check=False, stderr=subprocess.PIPE, text=True, timeout=60,
        env=without_ours() | environment,
    )  # fmt: skip
    return _read(done.returncode, done.stderr)


def _read(status: int, stderr: str) -> Refusal:
    *log, line = stderr.splitlines()
    assert [event for event in log if not event.startswith("time=")] == []
    code = ExitCode(status)
    assert_exit_named(line, code, EXIT_CODES)
    return Refusal(code, line)
