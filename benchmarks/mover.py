"""What a million delayed messages cost the mover.

    python benchmarks/mover.py ROOT [--messages 1000000]

Fills ROOT/mq/delay with empty files that are due in a year, and two that are due one and fifteen
seconds after the mover starts, which is during and after its first scan; prints how late they were
moved, the mover's memory a message, its processor time while idle, and how late a file is that
arrives with a stamp after that. ROOT needs an inode a message.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
from servers import cpu_seconds

from mq.ids import MessageIds

_YEAR_SECONDS = 365 * 86_400
_IDLE_SECONDS = 20


def make(folder: Path, name: str, due: float) -> None:
    path = folder / name
    path.touch()
    os.utime(path, (due, due))


def lateness(queue: Path, message_id: str, due: float) -> float:
    """Wait for the message; returns how many seconds after its time it came."""
    while not (queue / message_id).exists():
        time.sleep(0.002)
        assert time.time() < due + 60, "not moved"
    return time.time() - due


def memory_kib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0])


def start(root: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "mq_mover",
            f"--source={root}/delay",
            f"--destination={root}/queues",
        ],
        stderr=subprocess.DEVNULL,
    )


def wait_until_idle(pid: int) -> None:
    spent = -1.0
    while cpu_seconds([pid]) - spent > 0.02:
        spent = cpu_seconds([pid])
        time.sleep(1)


def measure(root: Path, messages: int) -> None:
    delay, queue = root / "delay", root / "queues" / "bench"
    delay.mkdir(parents=True)
    queue.mkdir(parents=True)
    empty = start(root)
    wait_until_idle(empty.pid)
    base_kib = memory_kib(empty.pid)
    empty.kill()
    empty.wait()
    ids = MessageIds(time.time_ns)
    year = time.time() + _YEAR_SECONDS
    with click.progressbar(range(messages), label="filling", file=sys.stderr) as steps:
        for _ in steps:
            make(delay, f"bench:{ids.next()}", year)
    early, first, later = ids.next(), ids.next(), ids.next()
    now = time.time()
    make(delay, f"bench:{early}", now + 1)
    make(delay, f"bench:{first}", now + 15)
    mover = start(root)
    try:
        print(f"due during the first scan: {lateness(queue, early, now + 1):.3f} s late")
        print(f"due after it: {lateness(queue, first, now + 15):.3f} s late")
        wait_until_idle(mover.pid)
        grown = (memory_kib(mover.pid) - base_kib) * 1024 / max(messages, 1)
        print(f"memory: {grown:.0f} bytes a message")
        spent = cpu_seconds([mover.pid])
        time.sleep(_IDLE_SECONDS)
        busy = (cpu_seconds([mover.pid]) - spent) / _IDLE_SECONDS
        print(f"idle: {100 * busy:.2f} % of a processor")
        later_due = time.time() + 1
        make(root, f"bench:{later}", later_due)
        os.rename(root / f"bench:{later}", delay / f"bench:{later}")
        print(f"arrived with a stamp: {lateness(queue, later, later_due):.3f} s late")
    finally:
        mover.kill()
        mover.wait()


@click.command()
@click.argument("root", type=click.Path(path_type=Path, exists=True))
@click.option("--messages", default=1_000_000, show_default=True)
def main(root: Path, messages: int) -> None:
    """What a million delayed messages cost the mover."""
    folder = Path(tempfile.mkdtemp(dir=root))
    try:
        measure(folder / "mq", messages)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
