"""The shell sessions of a document, run as they stand; samples are recognised as in `console`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.console import Console, read_blocks
from tests.support.mqctl import without_ours
from tests.support.sources import REPOSITORY

_AGE = re.compile(r" +\d+\.\ds$")
_COMMANDS = {"mqctl": "mq.ctl", "vsqs": "vsqs"}
"""And the modules that they run."""


def read_sessions(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of all `sh-session` blocks, each with what it prints."""
    for block in read_blocks(text):
        if block.kind == "sh-session":
            for part in "\n".join(block.lines).removeprefix("$ ").split("\n$ "):
                command, *shown = part.splitlines()
                yield command, shown


class ConsoleSession(Console):
    """Runs our commands and a shell, as a person does; stdout and stderr together. `/tmp/alone` is
    a folder of its own."""

    def __init__(self, address: str, folder: Path, **environment: str) -> None:
        super().__init__(address, folder)
        self._folder = folder
        self._environment = without_ours() | environment
        programs = folder / "bin"
        programs.mkdir()
        for name, module in _COMMANDS.items():
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
            program.chmod(0o755)
        self._environment["PATH"] = f"{programs}:{self._environment['PATH']}"
        self._environment["PYTHONPATH"] = str(REPOSITORY)

    def check(self, command: str, shown: list[str]) -> None:
        """Raise AssertionError if the command prints something else."""
        done = subprocess.run(
            self._fill_in(command).replace("/tmp/alone", str(self._folder / "alone")),
            check=False, shell=True, cwd=self._folder, env=self._environment, timeout=60,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        printed = [_AGE.sub(" 1.0s", line) for line in done.stdout.splitlines()]
        shown = [_AGE.sub(" 1.0s", line) for line in shown]
        assert len(printed) == len(shown), f"{command}: {printed}"
        for pair in zip(shown, printed, strict=True):
            assert self._is_same(*pair), f"{command}: {pair}"
