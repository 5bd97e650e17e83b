"""Applications of Spark that are killed, stopped and woken as a whole."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from tests.support.process_trees import ProcessTree
from tests.support.sources import REPOSITORY

_numbers = count(1)


class Application(ProcessTree):
    """One application; it writes `mark` when it comes to the step `die_at`."""

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
        dying = REPOSITORY / "tests/spark/dying"
        command = [
            sys.executable,
            f"{dying}/application.py",
            kind,
            f"{place}",
            f"{folder}",
            f"{limit}",
        ]
        always = {
            "PYTHONPATH": f"{dying}:{REPOSITORY}",
            "MQ_DIE_AT": die_at,
            "MQ_DIE_MARK": str(self.mark),
        }
        super().__init__(command, folder, folder / "application.log", always | environment)
