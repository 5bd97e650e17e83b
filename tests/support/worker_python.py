"""A Python for the workers of a Spark session. Its `python -m` is there at once: it is forked
from a process that has imported what workers import.

Spark starts a new Python for each streaming query, with PySpark in a zip, which each such process
compiles again. That takes longer than most tests of a query. How workers start from nothing is the
business of the applications and commands that tests run as processes of their own.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

MAX_REQUEST_BYTES = 200_000
"""What a socket takes as one message."""


def main(path: str, *words: str) -> None:
    """Stand for the forked Python: end as it ends. If this process is killed, so is that one."""
    if words[0] != "-m":
        os.execv(sys.executable, [sys.executable, *words])
    request = json.dumps([words[1], words[2:], dict(os.environ), os.getcwd()]).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(path)
        socket.send_fds(connection, [request], [0, 1, 2])
        code = int(connection.recv(20))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
