"""Runs `mqctl` as people do, as a process."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from mq.ctl.cli import CTL_EXIT_CODES
from mq.errors import ExitCode
from tests.support.preloaded import run_preloaded


class Done(NamedTuple):
    code: int
    out: bytes
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def run_to_the_end(module: str, *words: str, stdin: bytes = b"", **environment: str) -> Done:
    """Run `python -m module words...`."""
    env = without_ours() | environment
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        files = (given.fileno(), out.fileno(), err.fileno())
        code = run_preloaded(module, *words, files=files, env=env, seconds=60)
        out.seek(0)
        err.seek(0)
        return Done(code, out.read(), err.read().decode())


class Ctl:
    """Runs `mqctl` with one of the two ways in."""

    def __init__(self, *way: str) -> None:
        self.way = way

    def __call__(self, *words: str, stdin: bytes = b"", **environment: str) -> Done:
        return run_to_the_end("mq.ctl", *words, *self.way, stdin=stdin, **environment)

    def ok(self, *words: str, stdin: bytes = b"") -> Done:
        done = self(*words, stdin=stdin)
        assert done.code == 0, done
        return done


def without_ours() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("MQ")}


def assert_refused(done: Done, code: ExitCode, detail: str) -> None:
    """Assert that one line says what is wrong, and that the exit code does."""
    assert (done.code, done.out) == (code, b"")
    assert re.fullmatch(r"mqctl: .+\n", done.err), done.err
    assert_exit_named(done.err, code, CTL_EXIT_CODES)
    assert detail in done.err


def assert_exit_named(err: str, code: ExitCode, meanings: Mapping[ExitCode, str]) -> None:
    """Assert that an error ends with its exit code and what that means, or after a wrong command
    line with the command that shows the right one."""
    name, _, hint = err.rstrip().rpartition(f" (exit {code.value}: ")
    command = name.partition(":")[0]
    is_usage = code is ExitCode.USAGE and re.fullmatch(rf"see {command}( \w+)? --help\)", hint)
    assert is_usage or hint == f"{meanings[code]})", err
