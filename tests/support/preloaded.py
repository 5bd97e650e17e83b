"""Runs commands of MQ as real processes that are there at once: they are forked from a process that
has imported what they import, on which `python -m` spends nearly all of its time.

Each has a pid, an environment and standard files of its own, and ends as any interpreter ends, but
for what that does to its memory. Its command line and first environment, as the system shows them,
are those of the process that forked it. How a command starts from nothing is the business of other
tests, which use `subprocess`.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from typing import NamedTuple

from tests.support.sources import REPOSITORY

PRELOADED = (
    "mq.ctl.ways.by_http", "mq.ctl.ways.by_root", "mq.ctl.ways.run_as_owner", "mq.ctl.cli",
    "mq.ctl.commands.checking", "mq.ctl.commands.releasing", "mq.ctl.screen", "mq.lines.transfer",
    "mq.daemon.cli", "mq.daemon.server", "mq_mover.cli", "mq_reaper.cli",
    "mq_sqs.cli", "mq_sqs.server", "vsqs.cli", "vsqs.queue",
)  # fmt: skip
"""What takes long to import."""

_CONTROL_FD = 0
_MAX_REQUEST_BYTES = 200_000
"""What a socket takes as one message."""


class Forked:
    """`python -m module words...` under way, with what `subprocess.Popen` has to end it and to wait
    for it."""

    def __init__(
        self, module: str, *words: str, files: tuple[int, int, int], env: dict[str, str]
    ) -> None:
        """Start it with stdin, stdout and stderr in `files`."""
        request = json.dumps([module, words, env, os.getcwd()]).encode()
        assert len(request) < _MAX_REQUEST_BYTES
        self._status, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its_end:
            socket.send_fds(_control(), [request], [its_end.fileno(), *files])
        self.pid = int(self._status.recv(20))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code of the process, or the signal that ended it as a negative number;
        None while it runs."""
        return self._end(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Return what `poll` does once the process has ended. Raises TimeoutError when it has not
        after `timeout`."""
        code = self._end(timeout)
        if code is None:
            raise TimeoutError(f"process {self.pid} has not ended after {timeout} s")
        return code

    def _end(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            told = select.poll()
            told.register(self._status, select.POLLIN)
            if told.poll(None if timeout is None else timeout * 1000):
                self.returncode = int(self._status.recv(20))
                self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Do nothing if it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def run_preloaded(
    module: str, *words: str, files: tuple[int, int, int], env: dict[str, str], seconds: float
) -> int:
    """Run `python -m module words...` with stdin, stdout and stderr in `files`.

    Returns its exit code, or that of the signal as a negative number. Raises TimeoutError when it
    has not ended after `seconds`; it is killed then.
    """
    forked = Forked(module, *words, files=files, env=env)
    try:
        return forked.wait(seconds)
    except TimeoutError:
        forked.send_signal(signal.SIGKILL)
        forked.wait()
        raise


@functools.cache
def _control() -> socket.socket:
    """Return a connection to the process that forks, which ends with it."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        command = [sys.executable, "-m", __name__]
        process = subprocess.Popen(command, stdin=its.fileno(), cwd=REPOSITORY)

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# The process that forks


class Start(NamedTuple):
    """What is to be run, and where."""

    module: str
    words: list[str]
    env: dict[str, str]
    folder: str


def _serve() -> tuple[Start, list[int]] | None:
    """Fork one process for each request until there are no more. In the forked process it returns
    the request and the three files."""
    control = socket.socket(fileno=_CONTROL_FD)
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is not control:
                selector.unregister(key.fileobj)
                _tell_end(key.fd, *key.data)
                continue
            data, fds, _, _ = socket.recv_fds(control, _MAX_REQUEST_BYTES, 4)
            if not data:
                return None
            status = socket.socket(fileno=fds.pop(0))
            pid = os.fork()
            if pid == 0:
                selector.close()
                control.detach()
                return Start(*json.loads(data)), fds
            for fd in fds:
                os.close(fd)
            status.sendall(b"%d" % pid)
            selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status))


def _tell_end(pidfd: int, pid: int, status: socket.socket) -> None:
    os.close(pidfd)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        status.sendall(b"%d" % code)
    except BrokenPipeError:
        pass  # Its time was over.
    status.close()


def become(request: Start, fds: list[int]) -> None:
    """Become what `python -m` would have just started."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    # Nothing else is open in a new process; here the pidfds of others may be.
    os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request.env)
    os.chdir(request.folder)
    sys.path[0] = request.folder
    sys.argv[1:] = request.words
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False, buffering=1, errors="backslashreplace")


def run_to_its_end(module: str) -> None:
    """Run `module`, and end with its exit code. To free what is in memory, which is shared with the
    process that forked this one, takes five times as long as a short command."""
    code: str | int | None = None
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code
    vars(threading)["_shutdown"]()
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError):
        sys.exit(code)  # The interpreter says what could not be written.
    if isinstance(code, str):
        sys.exit(code)
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    # An interrupt from a terminal is for the tests, which end this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in PRELOADED:
        importlib.import_module(name)
    # No forked process goes through all of that for garbage, nor copies its pages for it.
    gc.freeze()
    if forked := _serve():
        become(*forked)
        run_to_its_end(forked[0].module)
