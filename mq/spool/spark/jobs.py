"""Jobs: the batches that they have committed, the attempts that won, and the lock under which that
is decided.

    spark/txn/JOB/          its folder; only the holder of its lock adds to it
    spark/txn/JOB/BATCH     the attempts that won, a line each
    spark/stage/JOB/BATCH/  what the batch has staged
"""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mq.disk.files import HIDDEN
from mq.errors import ClaimError
from mq.lifecycle import Folder
from mq.spool.message.held import Lost
from mq.spool.removed_folders import leave_to_reaper
from mq.spool.sets import OPEN_SUFFIX, hold_set
from mq.spool.spark.marker_files import parse_number
from mq.spool.spool import Spool

STAGE = "stage"
TXN = "txn"
GIVEN_UP = "spark"
"""Sets of Spark that do not count go to `remove/spark:.UUID`."""

STAGE_LOCK_SECONDS = 60.0
"""How long a commit waits for another process that rolls the same batch forward."""

_MAX_TXN_BYTES = 16 * 1024 * 1024
_POLL_SECONDS = 0.01

_ATTEMPT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Job:
    """A job by its name: a query, an application (`txnAppId`), or a write of its own, whose name
    begins with a dot. It exists while one of its folders does."""

    def __init__(self, spool: Spool, name: str) -> None:
        self.spool = spool
        self.name = name
        self.txn = f"{TXN}/{name}"
        self.stage = f"{STAGE}/{name}"

    @property
    def is_one_write(self) -> bool:
        """Whether it has one batch, which is never asked for again once it is done."""
        return self.name.startswith(HIDDEN)

    def listed(self) -> list[int]:
        """Return the batches that have a list of winners, in no order."""
        return self._numbers_in(self.txn)

    def staged(self) -> list[int]:
        """Return the batches that have something staged, in no order."""
        return self._numbers_in(self.stage)

    def _numbers_in(self, path: str) -> list[int]:
        names = self.spool.names_if_any(Folder.SPARK, path)
        return [number for each in names if (number := parse_number(each)) is not None]

    def attempts(self, batch: int) -> list[str]:
        """Return the paths of the sets that a batch has staged, also of open ones."""
        path = f"{self.stage}/{batch}"
        return [f"{path}/{name}" for name in self.spool.names_if_any(Folder.SPARK, path)]

    def last_committed(self) -> int | None:
        """Return the greatest batch that is committed, or None."""
        for batch in sorted(self.listed(), reverse=True):
            status = self.spool.status(Folder.SPARK, f"{self.txn}/{batch}")
            if status is not None and stat.S_ISREG(status.st_mode):
                return batch
        return None

    def is_committed(self, batch: int) -> bool:
        """Return whether this batch or a later one is committed. If a later one is, this one is
        done and forgotten."""
        last = self.last_committed()
        return last is not None and last >= batch

    def winners(self, batch: int) -> list[str]:
        """Return the attempts that won. Raises ClaimError if the list is damaged."""
        files, path = self.spool.files, f"{self.txn}/{batch}"
        try:
            fd = files.open_message(self.spool.fd(Folder.SPARK), path)
        except FileNotFoundError:
            return []
        try:
            text = files.read(fd, _MAX_TXN_BYTES).decode("ascii", "replace")
        finally:
            files.close(fd)
        *names, rest = text.split("\n")
        if rest or not all(map(_is_attempt, names)):
            raise ClaimError(
                f"{self.spool.root}/{Folder.SPARK}/{path} is damaged, and does not tell what of "
                f"{Folder.SPARK}/{self.stage}/{batch} was committed: look at both; move what "
                "counts to its queues, then the file away"
            )
        return names

    def winners_if_last(self, batch: int) -> list[str]:
        """Return the attempts that won, or none unless the batch is the last committed one. Raises
        ClaimError if the list is damaged."""
        return self.winners(batch) if self.last_committed() == batch else []

    @contextmanager
    def held(self, patience_seconds: float) -> Iterator[bool]:
        """Hold the job's lock. Yields False if another process still has it after that time."""
        spool, deadline = self.spool, time.monotonic() + patience_seconds
        spool.make_folders(Folder.SPARK, TXN, self.txn)
        while isinstance(lock := hold_set(spool, Folder.SPARK, self.txn), Lost):
            if lock is Lost.FOREIGN:
                raise ClaimError(
                    f"{spool.root}/{Folder.SPARK}/{self.txn} is not a folder: move it away"
                )
            if lock is Lost.GONE:
                # It is a job of one batch, and done.
                spool.make_folders(Folder.SPARK, TXN, self.txn)
            elif time.monotonic() >= deadline:
                yield False
                return
            else:
                time.sleep(_POLL_SECONDS)
        try:
            yield True
        finally:
            spool.files.close(lock)

    def give_up(self, batch: int, attempts: list[str]) -> None:
        """Hand these attempts to the reaper, unless they have won. An attempt that cannot be
        decided now is left to the next commit of the job, or to a sweep."""
        if not self.spool.exists(Folder.SPARK, self.stage):
            return
        with self.held(STAGE_LOCK_SECONDS) as is_held:
            if not is_held:
                return
            won = self.winners_if_last(batch)
            for name in attempts:
                if name not in won:
                    self.hand_over(f"{self.stage}/{batch}/{name}")
            self.clear_stage(batch)
            self.remove_if_done()

    def hand_over(self, attempt: str) -> None:
        """Hand the set at this path to the reaper."""
        leave_to_reaper(self.spool, Folder.SPARK, attempt, GIVEN_UP)

    def forget(self, batch: int) -> None:
        """Unlink the list of winners."""
        try:
            self.spool.unlink(Folder.SPARK, f"{self.txn}/{batch}")
        except FileNotFoundError:
            pass

    def clear_stage(self, batch: int) -> None:
        """Remove the folders of what a batch has staged, as far as they are empty."""
        self._remove_folder(f"{self.stage}/{batch}")
        self._remove_folder(self.stage)

    def remove_if_done(self) -> None:
        """Remove the folder of a job of one batch, which is never asked for again. Of any other job
        the folder is kept, with the batch that was committed last."""
        if self.is_one_write:
            self._remove_folder(self.txn)

    def _remove_folder(self, path: str) -> None:
        try:
            self.spool.files.remove_folder(self.spool.fd(Folder.SPARK), path)
        except OSError:
            # It is not empty because a late attempt has begun, or another process was faster.
            pass


def _is_attempt(name: str) -> bool:
    return _ATTEMPT.fullmatch(name) is not None and not name.endswith(OPEN_SUFFIX)
