"""Command lines that read stdin, started without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mq.errors import ExitCode
from tests.support.mqctl import Ctl, without_ours


@pytest.mark.parametrize(
    "words",
    [("vsqs", "publish", "queue"), ("vsqs", "publish", "queue", "-f", "-"),
     ("vsqs", "import", "queue"), ("mq.ctl", "send", "jobs"), ("mq.ctl", "send", "jobs", "--lines"),
     ("mq.ctl", "import", "jobs")],
)  # fmt: skip
def test_a_closed_stdin_publishes_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    root = tmp_path / "mq"
    Ctl("--root", str(root)).ok("create", "jobs")

    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", *words],
        check=False, capture_output=True, timeout=60, cwd=tmp_path,
        env=without_ours() | {"MQ_ROOT": str(root)},
    )  # fmt: skip

    assert done.returncode == ExitCode.USAGE
    assert b": stdin is closed" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert done.stdout == b""


def test_a_server_without_stdin_stops_as_asked(tmp_path: Path) -> None:
    """No socket may have descriptor 0: the event loop would abort the server when it closes it."""
    words = ("mq", "--root", str(tmp_path / "mq"), "--port=0", "--admin=")
    server = subprocess.Popen(
        ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", *words],
        stderr=subprocess.PIPE, env=without_ours(),
    )  # fmt: skip
    with server:
        assert server.stderr is not None
        listening = next(line for line in server.stderr if b"event=listening" in line)
        has_nothing = os.readlink(f"/proc/{server.pid}/fd/0") == os.devnull
        server.terminate()
        server.stderr.read()

    assert b"http://" in listening
    assert has_nothing
    assert server.returncode == 0
