"""Commands that are started without stderr."""

from __future__ import annotations

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
        (("info", "nowhere"), ExitCode.NOT_FOUND, b""),
    ],
)
def test_a_closed_stderr_changes_nothing_else(
    tmp_path: Path, words: tuple[str, ...], code: ExitCode, out: bytes
) -> None:
    root = tmp_path / "mq"
    ctl = Ctl("--root", str(root))
    ctl.ok("create", "jobs")
    ctl.ok("send", "jobs", "press the shirts")

    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "mq.ctl", *words],
        check=False, stdout=subprocess.PIPE, timeout=60,
        env=without_ours() | {"MQCTL_ROOT": str(root)},
    )  # fmt: skip

    assert (done.returncode, out in done.stdout) == (code, True)
    assert b"Traceback" not in done.stdout
