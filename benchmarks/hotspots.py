"""Where the server's processor time goes, by phase: a sampling profile.

    .venv/bin/pip install -e '.[bench]' && .venv/bin/python benchmarks/hotspots.py FOLDER

Starts `mq` below FOLDER, and for each phase of `phases.py` py-spy beside it, which looks at the
stacks of all threads 500 times a second while they run. Prints how the samples are spread over the
threads, and over modules by where the stack ends: a system call counts for the module that makes
it. The server is slower meanwhile, so the rates here mean nothing.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import uvloop
from report import table
from servers import Target, running_mq

from mq.ctl.bench.generator import connect, play
from mq.ctl.bench.phases import cycles, each, receive_each

_SHOWN = 12
"""This many modules are named; the others are one line."""

_WAITING = re.compile(r";(?:_worker \(concurrent/futures/thread|_take \(mq/commit)[^;]*$")
"""Threads that wait for work, which py-spy does not tell from busy ones."""

_FRAME = re.compile(r"^(?P<function>.*) \((?P<file>[^():]*)(?::\d+)?\)$")


@contextmanager
def sampled(pid: int, stacks: Counter[str]) -> Iterator[None]:
    """Count the stacks of a process, as `thread;frame;frame`, until the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stacks"
        words = ["py-spy", "record", "--pid", str(pid), "--rate", "500", "--threads",
                 "--format", "raw", "--duration", "600", "--output", str(file)]  # fmt: skip
        words[0] = shutil.which("py-spy") or str(Path(sys.executable).with_name("py-spy"))
        spy = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            spy.send_signal(signal.SIGINT)
            spy.wait()
        for line in file.read_text().splitlines():
            stack, _, count = line.rpartition(" ")
            if not _WAITING.search(stack):
                stacks[stack] += int(count)


async def profile(
    target: Target, messages: int, connections: int, body: bytes
) -> dict[str, Counter[str]]:
    """Return the stacks of each phase, and how often each was seen."""
    dialect = target.dialect
    clients = await connect(dialect, target.addresses, connections)
    own: list[list[bytes]] = [[] for _ in clients]
    await clients[0].play(each(iter([b"PUT /bench HTTP/1.1\r\nHost: mq\r\n\r\n"]), dialect.check))
    numbers, publish = iter(range(messages)), iter([dialect.publish(body)] * messages)
    left = iter(range(messages // 3))
    phases = {
        "publish": [each(publish, dialect.check) for _ in clients],
        "receive": [receive_each(dialect, numbers, ids) for ids in own],
        "remove": [each(map(dialect.remove, ids), dialect.check) for ids in own],
        "cycle": [cycles(dialect, body, left) for _ in clients],
    }
    found: dict[str, Counter[str]] = {name: Counter() for name in phases}
    for name, scripts in phases.items():
        with sampled(target.pids[0], found[name]):
            await play(clients, scripts, target.cpu_seconds)
    for client in clients:
        client.close()
    return found


def module_of(stack: str) -> str:
    """Return the file of the last frame: from the package on, for a library only its name."""
    frame = _FRAME.match(stack.rpartition(";")[2])
    file = frame["file"] if frame else "the interpreter"
    return file.rpartition("site-packages/")[2].removeprefix("./")


def thread_of(stack: str) -> str:
    first = stack.partition(";")[0]
    return re.sub(r"thread \(\w+\)|thread \w+", "", first).strip(": ") or "main"


def shares(found: dict[str, Counter[str]], part: str) -> list[list[str]]:
    """Return a line for each thread or module, the largest first."""
    of = thread_of if part == "thread" else module_of
    total: Counter[str] = Counter()
    by_phase: dict[str, Counter[str]] = {}
    for phase, stacks in found.items():
        counted = by_phase.setdefault(phase, Counter())
        for stack, count in stacks.items():
            counted[of(stack)] += count
        total.update(counted)
    lines = []
    for name, _ in total.most_common(_SHOWN):
        parts = (counted[name] / max(1, counted.total()) for counted in by_phase.values())
        lines.append([f"`{name}`", *(f"{part:.0%}" for part in parts)])
    return lines


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--messages", default=20000, show_default=True)
@click.option("--connections", default=64, show_default=True)
def main(folder: Path, messages: int, connections: int) -> None:
    """Where the server's processor time goes."""
    with running_mq(folder) as target:
        found = uvloop.run(profile(target, messages, connections, b"x" * 256))
    for part in ("thread", "module"):
        print(table([part, *found], shares(found, part)) + "\n")


if __name__ == "__main__":
    main()
