"""Applications of Spark that are killed, stopped and woken as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

from tests.spark.dying.sitecustomize import processes_of, states_of
from tests.support.processes import wait_until
from tests.support.sources import REPOSITORY

_numbers = count(1)


class Application:
    """One process tree, in a session of its own."""

    def __init__(
        self,
        kind: str,
        place: Path | str,
        folder: Path,
        die_at: str = "",
        limit: int = 20,
        **environment: str,
    ) -> None:
        self.mark = folder / f"mark-{next(_numbers)}"
        self.started = folder / "started"
        self.started.unlink(missing_ok=True)
        self.log = folder / "application.log"
        dying = REPOSITORY / "tests/spark/dying"
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                [sys.executable, dying / "application.py", kind, place, folder, str(limit)],
                stdout=log, stderr=log, cwd=folder, start_new_session=True,
                env=os.environ | {"PYTHONPATH": f"{dying}:{REPOSITORY}", "MQ_DIE_AT": die_at,
                                  "MQ_DIE_MARK": str(self.mark)} | environment,
            )  # fmt: skip

    def wait(self) -> int:
        """Its exit code, when nothing of it runs any more."""
        code = self.popen.wait(480)
        wait_until(lambda: not processes_of(self.popen.pid), 60)
        return code

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
