"""Run the store's operations without a server: one at a time, each with a barrier of its own."""

from __future__ import annotations

import select
import time
from typing import TypeVar

from mq.barrier import SyncBarrier, Unsynced
from mq.config import RELIST_WAITING_SECONDS, ServerConfig
from mq.errors import StoreUnavailable
from mq.operation import Operation, unavailable
from mq.spool.folders import Spool
from mq.spool.root import measure_file_system
from mq.store.workspace import Workspace

T = TypeVar("T")


class Runner:
    """One more process at work on a root; locks and renames decide its races with the others."""

    def __init__(self, spool: Spool) -> None:
        file_system = measure_file_system(spool)
        # A delivery that fails leaves the message durable in `new`, for a server's sweep or fsck.
        self.work = Workspace(
            spool,
            ServerConfig(root=spool.root),
            request_sweep=lambda: None,
            granularity_ns=file_system.stamp_granularity_ns,
        )
        self._barrier = None if file_system.is_in_memory else SyncBarrier(spool)

    def close(self) -> None:
        self.work.ready.close()
        if self._barrier is not None:
            self._barrier.close()

    def wait(self, seconds: float) -> None:
        """Until something happens in a folder, or it is time to look for what no events tell."""
        seconds, watch = min(seconds, RELIST_WAITING_SECONDS), self.work.ready.watch
        if watch is None:
            time.sleep(seconds)
        else:
            select.select([watch], [], [], seconds)

    def run(self, operation: Operation[T]) -> T:
        """Run an operation and make it durable. Raises what it raises, or StoreUnavailable."""
        self.work.begin_batch()
        try:
            unsynced = next(operation)
            while True:
                unsynced = self._pass_barrier(operation, unsynced)
        except StopIteration as stop:
            result: T = stop.value
            return result
        except OSError as error:
            raise unavailable(error) from error
        finally:
            self.work.end_calls()

    def _pass_barrier(self, operation: Operation[T], unsynced: Unsynced) -> Unsynced:
        """What the operation leaves unsynced at its next `yield`."""
        self.work.end_calls()
        try:
            if self._barrier is not None:
                self._barrier.make_durable([unsynced])
        except OSError as error:
            return operation.throw(
                StoreUnavailable(
                    f"the root could not be synced ({error.strerror}); the outcome is unknown; "
                    "try again"
                )
            )
        return next(operation)
