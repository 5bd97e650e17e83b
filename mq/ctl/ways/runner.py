"""Run the store's operations without a server."""

from __future__ import annotations

import select
import time

from mq.commit.barrier import Barrier
from mq.commit.blocking import BlockingCommitter
from mq.config import RELIST_WAITING_SECONDS, ServerConfig
from mq.spool.file_system import measure_file_system
from mq.spool.spool import Spool
from mq.store.shared_state import Workspace


class Runner(BlockingCommitter):
    """Runs operations in a process that works on a root beside others. Locks and renames decide its
    races with them."""

    def __init__(self, spool: Spool) -> None:
        file_system = measure_file_system(spool)
        # If a delivery fails, the message stays durable in `new`, for a server's sweep or fsck.
        self.work = Workspace(
            spool,
            ServerConfig(root=spool.root),
            request_sweep=lambda: None,
            granularity_ns=file_system.stamp_granularity_ns,
        )
        barrier = None if file_system.is_in_memory else Barrier(spool)
        super().__init__(barrier, self.work.begin_round, self.work.end_calls)

    def close(self) -> None:
        self.work.ready.close()
        self.work.reservations.close()
        super().close()

    def wait(self, seconds: float) -> None:
        """Wait until something happens in a folder, or it is time to look for changes that no event
        tells."""
        seconds, watch = min(seconds, RELIST_WAITING_SECONDS), self.work.ready.watch
        if watch is None:
            time.sleep(seconds)
        else:
            select.select([watch], [], [], seconds)
