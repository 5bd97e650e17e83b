"""The process that forks the workers of `worker_python.py`."""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support import worker_python
from tests.support.preloaded import Start, become
from tests.support.sources import REPOSITORY
from tests.support.worker_python import MAX_REQUEST_BYTES

PRELOADED = (
    "pandas", "pyarrow.compute", "pyspark.worker",
    "pyspark.sql.worker.create_data_source", "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read", "pyspark.sql.worker.write_into_data_source",
    "pyspark_mq.source",
)  # fmt: skip
"""What takes long to import. Nothing that speaks HTTP: by root, no worker loads that."""


@contextmanager
def worker_forks(folder: Path) -> Iterator[Path]:
    """Make a Python for PYSPARK_PYTHON in `folder`, and yield it. It works until this ends."""
    path, python = folder / "forks", folder / "python"
    # One thread: with more, a fork would lack them.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(64)
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(listener.fileno())],
            stdin=subprocess.PIPE, cwd=REPOSITORY, env=environment, pass_fds=[listener.fileno()],
        )  # fmt: skip
    launcher = shlex.join([sys.executable, "-IS", str(worker_python.__file__), str(path)])
    python.write_text(f'#!/bin/sh\nexec {launcher} "$@"\n')
    python.chmod(0o700)
    yield python
    process.communicate()


# The process that forks


def _serve(listener: socket.socket) -> tuple[Start, list[int]] | None:
    """Fork a keeper for each connection, until stdin ends. In the process that a keeper forks it
    returns the request and the three files."""
    while listener.fileno() in select.select([listener.fileno(), 0], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            data, fds, _, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, 3)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            pid = os.fork()
            if pid == 0:
                return Start(*json.loads(data)), fds
            _keep(pid, connection, fds)
        connection.close()
    return None


def _keep(pid: int, connection: socket.socket, fds: list[int]) -> None:
    """Tell how the process ends, and see to it that it ends with the one it stands for."""
    for fd in fds:
        os.close(fd)
    ended = os.pidfd_open(pid)
    if ended not in select.select([ended, connection.fileno()], [], [])[0]:
        os.kill(pid, signal.SIGTERM)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):
        connection.send(b"%d" % code)
    os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()
    if forked := _serve(socket.socket(fileno=int(sys.argv[1]))):
        become(*forked)
        known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path += [each for each in known if each not in sys.path]
        runpy.run_module(forked[0].module, run_name="__main__", alter_sys=True)
