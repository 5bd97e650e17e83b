"""A real terminal for one program: tmux."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.processes import wait_until

_PATIENCE_SECONDS = 60.0


class TmuxScreen:
    """A program in a terminal of its own. Skips without tmux."""

    def __init__(
        self, folder: Path, command: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        if shutil.which("tmux") is None:
            pytest.skip("tmux is missing: install the package tmux")
        self._socket = str(folder / "tmux")
        self._environment = {**environment, "LC_ALL": "C.UTF-8", "TERM": "xterm"}
        size = ["-x", "100", "-y", "20"]
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, shlex.join(command))

    def type(self, *keys: str) -> None:
        """Type keys, which tmux names: `Enter`, `Tab`, `C-c`; or text."""
        self._tmux("send-keys", "--", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    def wait_for(self, text: str) -> str:
        """Wait until that is seen; returns all that is."""
        wait_until(lambda: text in self.text(), _PATIENCE_SECONDS)
        return self.text()

    def close(self) -> None:
        self._tmux("kill-server")

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], check=True, stdout=subprocess.PIPE, text=True,
            env=self._environment,
        )  # fmt: skip
        return done.stdout
