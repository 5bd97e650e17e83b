"""A thread that passes barriers while the event loop does other work."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable

Landed = Callable[[BaseException | None], None]
"""Takes what a barrier has raised, or None. Called on the event loop."""


class BarrierThread:
    """Passes barriers one by one, and tells the event loop when each is over."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._wanted: queue.SimpleQueue[tuple[Callable[[], None], Landed] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._run, name="barrier")
        self._thread.start()

    def begin(self, barrier: Callable[[], None], landed: Landed) -> None:
        self._wanted.put((barrier, landed))

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
            self._loop.call_soon_threadsafe(landed, failure)
