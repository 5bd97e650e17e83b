"""Servers on port 0, roots and loop-mounted file systems of their own; all end with their test."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mq.spool.root import file_system_kind

pytest_plugins = ["tests.shares"]

LISTENING = re.compile(r"event=listening url=https?://(?:127\.0\.0\.1|\[::1\]):(\d+)")
ADMIN = re.compile(r"event=admin url=https?://127\.0\.0\.1:(\d+)")


def wait_until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for a condition; fails when it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen within {seconds} s: {condition}")
        time.sleep(0.005)


class Process:
    """A command of ours as a real process, its log in a file."""

    def __init__(self, module: str, *arguments: str, log: Path, **environment: str) -> None:
        self.log_path = log
        with log.open("ab") as stderr:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stderr=stderr,
                env={k: v for k, v in os.environ.items() if not k.startswith("MQ_")} | environment,
            )

    def log(self) -> str:
        return self.log_path.read_text()

    def stop(self) -> int:
        """SIGTERM, as systemd does; returns the exit code."""
        self.popen.terminate()
        return self.popen.wait(15)

    def kill(self) -> None:
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait(15)


class Server(Process):
    """`mq` on a root, ready for requests; `module` is what runs it."""

    def __init__(
        self, root: Path, *flags: str, log: Path, module: str = "mq", **environment: str
    ) -> None:
        self.root = root
        self.flags = flags
        self._seen = len(log.read_text()) if log.exists() else 0
        # Flags of the test come last and win.
        arguments = (f"--root={root}", "--port=0", "--admin=", *flags)
        super().__init__(module, *arguments, log=log, **environment)
        wait_until(lambda: self._find_port() or self.popen.poll() is not None, 30)
        port = self._find_port()
        assert port is not None, self.log()
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    @property
    def admin_port(self) -> int:
        """That of `--admin=127.0.0.1:0`."""
        match = ADMIN.search(self.log(), self._seen)
        assert match is not None, self.log()
        return int(match[1])

    def _find_port(self) -> int | None:
        match = LISTENING.search(self.log(), self._seen)
        return int(match[1]) if match else None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def disk(root: Path) -> Path:
    """The root where it must be on a medium that can be synced."""
    kind = file_system_kind(root.parent)
    if kind in ("tmpfs", "ramfs"):
        pytest.skip(f"{kind} keeps nothing: give pytest a --basetemp on a disk")
    return root


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[list[Process]]:
    """Put a process in here, and it is killed when the test ends."""
    started: list[Process] = []
    yield started
    for process in started:
        if process.popen.poll() is None:
            process.kill()


@pytest.fixture
def start_server(tmp_path: Path, processes: list[Process]) -> Callable[..., Server]:
    """`start_server("--visibility=1", root=...)` starts `mq`; it is killed when the test ends."""

    def start(*flags: str, root: Path | None = None) -> Server:
        log = tmp_path / f"mq-{len(processes)}.log"
        server = Server(root or tmp_path / "root", *flags, log=log)
        processes.append(server)
        return server

    return start


@pytest.fixture
def server(start_server: Callable[..., Server]) -> Server:
    return start_server()


class LoopMount:
    """A file system in a file, mounted on a folder."""

    def __init__(self, kind: str, folder: Path, megabytes: int, *options: str) -> None:
        self.image = folder / f"{kind}.img"
        self.path = folder / kind
        self.path.mkdir()
        with self.image.open("wb") as image:
            image.truncate(megabytes * 1024 * 1024)
        subprocess.run([f"mkfs.{kind}", "-q", *options, str(self.image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.path)], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)
        self.image.unlink()


@pytest.fixture
def loop_mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """`loop_mount("ext4", 64)` makes and mounts a file system of 64 MiB; returns where."""
    mounts: list[LoopMount] = []

    def mount(kind: str, megabytes: int, *options: str) -> Path:
        if os.geteuid() != 0:
            pytest.skip("loop mounts need root")
        if shutil.which(f"mkfs.{kind}") is None:
            package = {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}[kind]
            pytest.skip(f"mkfs.{kind} is missing: install the package {package}")
        mounts.append(LoopMount(kind, tmp_path, megabytes, *options))
        return mounts[-1].path

    yield mount
    for made in mounts:
        made.unmount()
