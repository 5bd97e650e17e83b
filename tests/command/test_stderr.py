"""Commands that are started without stderr, or with one that takes nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mq.errors import ExitCode
from tests.support.mqctl import Ctl, without_ours


@pytest.mark.parametrize(
    ("words", "code", "out"),
    [
        (("export", "jobs"), ExitCode.OK, b'"body": "press the shirts"'),
        (("fsck",), ExitCode.OK, b""),
        (("recv", "jobs", "--ack"), ExitCode.OK, b"press the shirts"),
        (("recv", "jobs"), ExitCode.OK, b"press the shirts"),
        (("info", "nowhere"), ExitCode.NOT_FOUND, b""),
    ],
)
@pytest.mark.parametrize("stderr", ["&-", "/dev/full"])
def test_a_stderr_that_takes_nothing_changes_nothing_else(
    tmp_path: Path, stderr: str, words: tuple[str, ...], code: ExitCode, out: bytes
) -> None:
    root = tmp_path / "mq"
    ctl = Ctl("--root", str(root))
    ctl.ok("create", "jobs")
    ctl.ok("send", "jobs", "press the shirts")

    done = subprocess.run(
        ["sh", "-c", f'exec "$@" 2>{stderr}', "sh", sys.executable, "-m", "mq.ctl", *words],
        check=False, stdout=subprocess.PIPE, timeout=60,
        env=without_ours() | {"MQCTL_ROOT": str(root)},
    )  # fmt: skip

    assert (done.returncode, out in done.stdout) == (code, True)
    assert b"Traceback" not in done.stdout


def test_a_server_whose_log_has_no_reader_any_more_stops_as_asked(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mq", f"--root={tmp_path}/mq", "--port=0", "--admin=off"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, env=without_ours())
    assert server.stderr is not None
    for line in server.stderr:
        if b"event=listening" in line:
            break
    server.stderr.close()

    server.send_signal(signal.SIGTERM)

    assert server.wait(60) == ExitCode.OK
