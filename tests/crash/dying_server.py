"""`mq` that is killed by SIGKILL before one of its file calls: `DIE_AT=12` means the twelfth one
after a batch was begun."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from mq.daemon.cli import main
from mq.store import opening
from tests.support.faults import CHANGES, SYNCS, CountedFiles


class DyingFiles(CountedFiles):
    """Counts from the first open set on."""

    def __init__(self) -> None:
        super().__init__(CHANGES | SYNCS, lambda: os.kill(os.getpid(), signal.SIGKILL))

    def _watched(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        is_batch = name == "make_folder" and str(arguments[1]).endswith(".open")
        if is_batch and self.calls_left is None:
            self.calls_left = int(os.environ["DIE_AT"])
        return super()._watched(name, call, *arguments)


if __name__ == "__main__":
    assert "files_for" in vars(opening)
    vars(opening)["files_for"] = lambda _root: DyingFiles()
    main()
