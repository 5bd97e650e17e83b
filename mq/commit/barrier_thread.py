"""A thread that passes barriers while others do other work."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

from mq.commit.barrier import Barrier, Unsynced

Landed = Callable[[BaseException | None], None]
"""Takes what a barrier has raised, or None. Called on the thread of barriers."""


class BarrierThread:
    """Passes barriers one by one, and tells when each is over."""

    def __init__(self, barrier: Barrier) -> None:
        self._barrier = barrier
        self._wanted: queue.SimpleQueue[tuple[Callable[[], None], Landed] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._run, name="barrier")
        self._thread.start()

    def begin(self, unsynced: Sequence[Unsynced], landed: Landed) -> None:
        """Begin to make all that `unsynced` names durable."""
        self._wanted.put((self._barrier.prepare(unsynced), landed))

    def close(self) -> None:
        """Finish all barriers that were begun, and wait for the thread to end."""
        self._wanted.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (wanted := self._wanted.get()) is not None:
            barrier, landed = wanted
            failure: BaseException | None = None
            try:
                barrier()
            except BaseException as error:
                failure = error
            landed(failure)
