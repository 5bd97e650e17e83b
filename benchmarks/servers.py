"""Processes that are measured: started here, asked what they used, stopped by their ids."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mq.ctl.bench.endpoints import Endpoints
from mq.ctl.bench.generator import LoadDialect

REPOSITORY = Path(__file__).parents[1]
_LISTENING = re.compile(r"listening url=http://127\.0\.0\.1:(\d+)")
START_SECONDS = 60.0
STOP_SECONDS = 30.0


class Target(NamedTuple):
    """A server under load: where it listens, how to speak to it, and its processes, if anybody
    knows them."""

    name: str
    addresses: Sequence[tuple[str, int]]
    dialect: LoadDialect
    pids: Sequence[int] = ()

    def cpu_seconds(self) -> float | None:
        return cpu_seconds(self.pids) if self.pids else None


@contextmanager
def running_mq(
    folder: Path, *, name: str = "mq", checkout: Path = REPOSITORY, count: int = 1,
    reuse_port: bool = False,
) -> Iterator[Target]:  # fmt: skip
    """Run one or more `mq` of a checkout on a fresh root below `folder`, which is removed at the
    end."""
    fresh = Path(tempfile.mkdtemp(dir=folder))
    try:
        with serving(fresh / "mq", checkout, count, reuse_port) as target:
            yield target._replace(name=name)
    finally:
        shutil.rmtree(fresh)


@contextmanager
def serving(
    root: Path, checkout: Path = REPOSITORY, count: int = 1, reuse_port: bool = False
) -> Iterator[Target]:
    """Run what `running_mq` does on a root that the caller knows, and keeps."""
    command = [str(python_of(checkout)), "-m", "mq", f"--root={root}", "--visibility=3600",
               "--admin=", f"--peers={count - 1}"]  # fmt: skip
    found: list[tuple[int, int]] = []
    with ExitStack() as stack:
        for _ in range(count):
            port = found[0][1] if found and reuse_port else 0
            words = [*command, f"--port={port}", *(["--reuse-port"] if reuse_port else [])]
            # `-m` finds the package in the working directory, before any that is installed.
            found.append(stack.enter_context(listening(words, cwd=checkout)))
        addresses = [("127.0.0.1", port) for _, port in found]
        yield Target("mq", addresses, Endpoints(), [pid for pid, _ in found])


@contextmanager
def listening(words: Sequence[str], cwd: Path | None = None) -> Iterator[tuple[int, int]]:
    """Run a server that logs its address, and yield its process id and its port. Raises
    RuntimeError if it does not start."""
    server = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=cwd)
    try:
        yield server.pid, _port_in_log(server)
    finally:
        stop([server])


def python_of(checkout: Path) -> Path:
    """Return the Python of a checkout, if it has its own: what is compiled for a checkout is
    there."""
    own = checkout / ".venv" / "bin" / "python"
    return own if own.exists() else Path(sys.executable)


def _port_in_log(process: subprocess.Popen[str]) -> int:
    """Return the port that a server logs. Raises RuntimeError if it ends before that."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        if match := _LISTENING.search(line):
            return int(match[1])
        seen.append(line)
    raise RuntimeError("".join(seen) or "it ended at once, without a word")


@contextmanager
def running(
    words: Sequence[str], folder: Path, port: int, *, ready: str = "", user: str | None = None,
    environment: Mapping[str, str] | None = None, how: signal.Signals = signal.SIGTERM,
) -> Iterator[subprocess.Popen[bytes]]:  # fmt: skip
    """Run a server that logs to a file below `folder`. The block begins once it listens on `port`
    and has said `ready`; at its end the server is stopped by the signal `how`. Raises RuntimeError
    if it does not start."""
    log = folder / "bench.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            words, stdout=output, stderr=output, cwd=folder, user=user, env=environment
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not listens(port) or ready not in log.read_text():
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{words[0]} did not start: {log.read_text()}")
            time.sleep(0.05)
        yield server
    finally:
        stop([server], how)


def listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


def stop(
    processes: Sequence[subprocess.Popen[str] | subprocess.Popen[bytes]],
    how: signal.Signals = signal.SIGTERM,
) -> None:
    """Stop processes by their ids, and wait for each. One that does not stop is killed."""
    for process in processes:
        process.send_signal(how)
    for process in processes:
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the processor time of processes and all that they started: user and system, of all
    threads.

    Read from the kernel's clock of each process, in nanoseconds (clock_getcpuclockid(3)), where
    /proc/PID/stat counts in hundredths of a second.
    """
    total, waiting = 0.0, list(pids)
    while waiting:
        pid = waiting.pop()
        with suppress(OSError):
            total += time.clock_gettime((~pid << 3) | 2)
            for task in os.listdir(f"/proc/{pid}/task"):
                children = Path(f"/proc/{pid}/task/{task}/children").read_text()
                waiting += map(int, children.split())
    return total


def listener_of(port: int) -> list[int]:
    """Return the processes of this machine that listen on a TCP port."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if inodes & {os.readlink(fd) for fd in (process / "fd").iterdir()}:
                found.append(int(process.name))
    return found


def more_descriptors() -> None:
    """Allow as many open files as the system does, here and in processes that are started from
    here."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
