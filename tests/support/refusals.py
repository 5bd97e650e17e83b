"""Processes that refuse to start: their one line on stderr and their exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

from mq.errors import EXIT_CODES, ExitCode


class Refusal(NamedTuple):
    exit_code: int
    line: str


def start(module: str, *arguments: str, **environment: str) -> Refusal:
    """Start a process that ends by itself."""
    return refusal_of([sys.executable, "-m", module, *arguments], environment)


def refusal_of(command: list[str], environment: dict[str, str]) -> Refusal:
    """Return the one line that is not an event of the log. It must be the last one, and name the
    exit code."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("MQ_")}
    done = subprocess.run(
        command, check=False, stderr=subprocess.PIPE, text=True, timeout=60, env=ours | environment
    )
    *log, line = done.stderr.splitlines()
    assert [event for event in log if not event.startswith("time=")] == []
    code = ExitCode(done.returncode)
    assert line.endswith(f"(exit {code.value}: {EXIT_CODES[code]})")
    return Refusal(code, line)
