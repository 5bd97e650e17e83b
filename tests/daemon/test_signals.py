"""A server that is stopped before it has opened its root."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mq.errors import ExitCode
from tests.support.processes import wait_until

HUNG = """
import threading
import mq.store.opening
from mq.daemon.cli import main
mq.store.opening.open_root = lambda *_: threading.Event().wait()
main()
"""


def test_server_whose_root_never_opens_stops_when_it_is_asked(tmp_path: Path) -> None:
    log = tmp_path / "log"
    flags = [f"--root={tmp_path / 'root'}", "--port=0", "--admin=127.0.0.1:0"]
    with log.open("wb") as stderr:
        server = subprocess.Popen([sys.executable, "-c", HUNG, *flags], stderr=stderr)
    try:
        wait_until(lambda: "event=admin" in log.read_text(), 100)

        server.terminate()

        assert server.wait(100) == ExitCode.OK
        assert "stopped before the root was open" in log.read_text()
    finally:
        server.kill()
        server.wait()
