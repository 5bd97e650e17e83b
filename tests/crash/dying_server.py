"""`mq` that is killed by SIGKILL before one of its file calls: `DIE_AT=12` means the twelfth one
after a batch was begun."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from mq.cli import main
from mq.store import upkeep
from tests.faults import CHANGES, SYNCS, WatchedFiles


class DyingFiles(WatchedFiles):
    """Counts from the first open set on."""

    def __init__(self) -> None:
        super().__init__()
        self._calls_left = int(os.environ["DIE_AT"])
        self._is_counting = False

    def _watched(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        self._is_counting |= name == "make_folder" and str(arguments[1]).endswith(".open")
        if self._is_counting and name in CHANGES | SYNCS:
            if self._calls_left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self._calls_left -= 1
        return super()._watched(name, call, *arguments)


if __name__ == "__main__":
    vars(upkeep)["Files"] = DyingFiles
    main()
