"""Our commands as real processes, `mq` ready for requests on a port of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.preloaded import Forked

LISTENING = re.compile(r"event=listening url=https?://(?:127\.0\.0\.1|\[::1\]):(\d+)")
ADMIN = re.compile(r"event=admin url=https?://127\.0\.0\.1:(\d+)")


IMPATIENT = "tests.support.impatient"
"""The module of a server that looks at its root more often."""

_STDOUT_FD = 1


def wait_until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for a condition; fails when it does not come. Without `seconds` that is before a lease
    of the usual length ends, and before a server lists again what events have told it.

    It looks once more when the time is over: this process may have stood still meanwhile.
    """
    deadline = time.monotonic() + seconds
    is_last = False
    while not condition():
        if is_last:
            raise AssertionError(f"did not happen within {seconds} s: {condition}")
        is_last = time.monotonic() > deadline
        time.sleep(0.005)


class Process:
    """A command of MQ as a real process, with its log in a file."""

    def __init__(self, module: str, *arguments: str, log: Path, **environment: str) -> None:
        self.log_path = log
        others = {k: v for k, v in os.environ.items() if not k.startswith("MQ_")}
        with log.open("ab") as stderr:
            self.popen = self._start(module, arguments, stderr.fileno(), others | environment)

    def _start(
        self, module: str, arguments: tuple[str, ...], stderr: int, env: dict[str, str]
    ) -> subprocess.Popen[bytes] | Forked:
        return subprocess.Popen([sys.executable, "-m", module, *arguments], stderr=stderr, env=env)

    def log(self) -> str:
        return self.log_path.read_text()

    def stop(self) -> int:
        """Send SIGTERM, as systemd does. Returns the exit code."""
        self.popen.terminate()
        return self.popen.wait(30)

    def kill(self) -> None:
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait(30)


class PreloadedProcess(Process):
    """One whose imports are there already, as `tests/support/preloaded.py` says."""

    def _start(
        self, module: str, arguments: tuple[str, ...], stderr: int, env: dict[str, str]
    ) -> subprocess.Popen[bytes] | Forked:
        with open(os.devnull, "rb") as stdin:
            files = (stdin.fileno(), _STDOUT_FD, stderr)
            return Forked(module, *arguments, files=files, env=env)


class Server(PreloadedProcess):
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
        try:
            wait_until(lambda: self._find_port() or self.popen.poll() is not None, 100)
        except AssertionError:
            self.kill()  # Nobody else knows of it yet.
            raise
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


class FreshServer(Server):
    """A server whose command line and environment the system shows as they are."""

    _start = Process._start


def free_port() -> int:
    """Return a free port, for those who read the flags of a server and cannot know which port 0
    became."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def start_mover(root: Path, *flags: str, log: Path | None = None) -> Process:
    """Start `mq-mover` on a root. Its log is beside the root, if it is not named."""
    folders = [f"--source={root / 'delay'}", f"--destination={root / 'queues'}"]
    return PreloadedProcess("mq_mover", *folders, *flags, log=log or root.with_name("mover.log"))


def start_reaper(root: Path) -> Process:
    source = f"--source={root / 'remove'}"
    return PreloadedProcess("mq_reaper", source, log=root.with_name("reaper.log"))


def resident_bytes(server: Server) -> int:
    """Return the most memory that a server has had."""
    for line in Path(f"/proc/{server.popen.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError
