"""Commands that are stopped, woken and killed together with all that they have started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.spark.dying.sitecustomize import processes_of, states_of
from tests.support.processes import wait_until


class ProcessTree:
    """A command and what it starts, in a session of its own. Its output is appended to `log`, and a
    JVM that is killed leaves its temporary files in `folder`."""

    def __init__(
        self, command: Sequence[str], folder: Path, log: Path, environment: dict[str, str]
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self.popen = subprocess.Popen(
                command, stdout=output, stderr=output, cwd=folder, start_new_session=True,
                env=os.environ | {"JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={folder}"} | environment,
            )  # fmt: skip

    def wait(self) -> int:
        """Return the exit code, when nothing of the tree runs any more."""
        code = self.popen.wait(480)
        wait_until(lambda: not processes_of(self.popen.pid), 180)
        return code

    def has_ended(self) -> bool:
        return self.popen.poll() is not None

    def sleeps(self) -> bool:
        return set(states_of(self.popen.pid).values()) == {"T"}

    def wake(self) -> None:
        for pid in processes_of(self.popen.pid):
            os.kill(pid, signal.SIGCONT)

    def kill(self) -> None:
        while alive := processes_of(self.popen.pid):
            for pid in alive:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.popen.wait(60)

    def end_of_log(self) -> str:
        return self.log.read_text()[-4000:]
