"""The other side of a VSQS queue, played by plain file operations, and clocks that are set."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tests.support.mqctl import Done, run_to_the_end
from tests.support.processes import wait_until
from vsqs.queue import Queue

OpenQueue = Callable[..., Queue]

NS = 1_000_000_000
PER_SECOND = {"ms": 1000, "us": 1_000_000}


class Clock:
    """Stands still until it is set."""

    def __init__(self, seconds: float = 1_000_000_000.0) -> None:
        self.ns = int(seconds * NS)

    def __call__(self) -> int:
        return self.ns

    def go(self, seconds: float) -> None:
        self.ns += int(seconds * NS)


class Other:
    """Another implementation of the protocol, step by step as its document says."""

    def __init__(self, folder: Path, unit: str) -> None:
        self.folder = folder
        self.unit = unit

    def now(self) -> int:
        return time.time_ns() * PER_SECOND[self.unit] // NS

    def publish(self, data: bytes) -> str:
        while True:
            name = str(self.now())
            try:
                fd = os.open(self.folder / f"{name}.new", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                continue
            with open(fd, "wb") as file:
                if any(each.split(".") in ([name], [name, each[len(name) + 1 :]])
                       for each in os.listdir(self.folder) if each != f"{name}.new"):  # fmt: skip
                    os.unlink(self.folder / f"{name}.new")
                    continue
                file.write(data)
            os.rename(self.folder / f"{name}.new", self.folder / name)
            return name

    def receive(self, visibility_seconds: float = 10) -> tuple[str, bytes] | None:
        self._requeue()
        for name in sorted(filter(str.isdigit, os.listdir(self.folder)), key=int):
            expiry = self.now() + int(visibility_seconds * PER_SECOND[self.unit])
            taken = self.folder / f"{name}.{expiry}"
            try:
                os.rename(self.folder / name, taken)
            except FileNotFoundError:
                continue
            return name, taken.read_bytes()
        return None

    def _requeue(self) -> None:
        for each in os.listdir(self.folder):
            name, _, expiry = each.partition(".")
            if expiry.isdigit() and int(expiry) <= self.now():
                os.rename(self.folder / each, self.folder / name)

    def delete(self, name: str) -> None:
        for each in os.listdir(self.folder):
            if each.partition(".")[0] == name:
                os.unlink(self.folder / each)


def run_command(module: str, *words: str | Path, stdin: bytes = b"") -> Done:
    """Run a command line: `vsqs`, `vsqs.pump` or `vsqs.sink`."""
    return run_to_the_end(module, *map(str, words), stdin=stdin)


def in_another_process(code: str, *arguments: object) -> Any:
    """Run Python code with `sys.argv[1:]`. Returns the process, stdin and stdout in pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def names_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def wait_until_blocked(future: Future[Any], queue: Queue) -> None:
    """Wait until a thread waits inside the queue."""
    folder = queue._shared._folder
    assert folder is not None
    wait_until(lambda: folder.users == 1)
    assert not future.done()
