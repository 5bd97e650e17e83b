"""The driver's part of a streaming read: claim, seal, finish."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from mq.disk.files import Files
from mq.errors import ClaimError
from mq.spool.spark.claiming import Claim, Taken
from mq.spool.spark.claims import Group
from mq.spool.spark.group_owner import NEW_FOLDER, NOBODY
from pyspark_mq.by_url.staging import prepare_staging
from pyspark_mq.job_root import visit_job_root
from pyspark_mq.options.options import Options
from pyspark_mq.reading.backlog import Backlog
from pyspark_mq.reading.balance import Shares
from pyspark_mq.reading.batch_read import existing_queues
from pyspark_mq.reading.claimers import claim_side_by_side

if TYPE_CHECKING:
    from pyspark_mq.by_url.intake import Intake

SIDE_BY_SIDE_FROM = 1000
"""How many messages a claim must have for helpers to be started. For fewer it is not worth it."""


class BatchLimits:
    """How much one batch may hold, and which part takes what. A batch holds at least one message,
    however large that is."""

    def __init__(self, parts: int, max_messages: int | None, max_bytes: int | None) -> None:
        self.parts = parts
        self._shares = Shares(parts)
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.messages = 0
        self._bytes = 0

    def part_for(self, length: int) -> int | None:
        """Return the part for a message of this size, or None if it belongs to the next batch."""
        if self.messages and self.max_bytes is not None and self._bytes + length > self.max_bytes:
            return None
        self._bytes += length
        return self._shares.next_for(length)

    def is_full(self) -> bool:
        return self.messages == self.max_messages


class Driver:
    """A driver that works for its group. A newer one fences it off."""

    def __init__(self, options: Options, files: Files | None = None) -> None:
        self._options = options
        if options.addresses is not None:
            prepare_staging(options.root, options.addresses.urls)
        self._spool = visit_job_root(options, files)
        self._group = Group(self._spool, options.group, str(uuid.uuid4()))
        self._backlog = Backlog(self._spool, options.queues)
        self._intake: Intake | None = None
        if options.addresses is not None:
            from pyspark_mq.by_url.intake import Intake

            self._intake = Intake(options.root, options.addresses, options.queues, files)
        self._last = 0

    def close(self) -> None:
        if self._intake is not None:
            self._intake.close()
        self._spool.close()

    def begin(self) -> None:
        """Begin to read. Raises QueueNotFound, and ClientError by url."""
        if self._intake is not None:
            self._intake.require_queues()
        existing_queues(self._spool, self._options.queues)
        self._group.make()

    @property
    def name(self) -> str:
        """What the group knows this driver by."""
        return self._group.driver

    def fence(self) -> None:
        """Become the driver of the group; earlier ones are fenced off."""
        self._group.fence()

    def first_start(self) -> int:
        """Return the batch after which a query without a checkpoint begins. It is the same after a
        crash, because the floor does not rise before that query's first batch is done. Raises
        ClaimError if the group belongs to another query, as far as that can be told before the
        first read."""
        floor, owner = self._group.floor(), self._group.owner()
        if owner.query != NOBODY and floor > owner.start and not self._options.takes_over:
            raise self._group.taken(owner)
        return floor

    def freeze(self) -> None:
        """Read what waits now, and no more."""
        if self._intake is not None:
            self._intake.freeze()
        else:
            self._backlog.freeze()

    def report(self) -> dict[str, Any]:
        """Return what the progress of the query shows: the last batch, and the lag in messages."""
        there = 0 if self._intake is None else self._intake.waiting()
        return {"seq": self._last, "waiting": self._backlog.count() + there}

    def next_batch(self, start: int, max_messages: int | None, max_bytes: int | None) -> int:
        """Return the batch after `start`, sealed and durable, or `start` if there is nothing to
        read.

        Everything up to `start` is in Spark's commit log by now. Raises ClaimError.
        """
        self.require_current(start)
        self.finish(start)
        self._last = start + 1
        if self._group.is_sealed(start + 1):
            # An earlier driver sealed it, and it may not be durable yet; or a later one did, which
            # reads it itself.
            self._group.require_driver()
            self._group.sync_sealed()
        elif not self._claim(start + 1, max_messages, max_bytes):
            self._last = start
        return self._last

    def require_current(self, start: int) -> None:
        """Raise ClaimError if a checkpoint at this batch is older than the group. It is not while
        the next batch is there, done or not: a power cut may have kept the floor, and not Spark's
        logs."""
        floor = self._group.floor()
        if start < floor and not self._group.is_sealed(start + 1):
            raise ClaimError(
                f"group {self._options.group}: the checkpoint is at batch {start}, but batches up "
                f"to {floor} are done and gone: it is an old copy, or another query works with "
                "this group, or Spark lags behind with it (asyncProgressTrackingEnabled). Start "
                f"with a new checkpoint and the option takeover=true. {NEW_FOLDER}"
            )

    def _claim(self, batch: int, max_messages: int | None, max_bytes: int | None) -> bool:
        """Claim a batch. Returns False if there was nothing to claim."""
        if self._claim_waiting(batch, max_messages, max_bytes):
            return True
        if self._intake is None:
            return False
        # Nothing is staged, or nothing of it can be taken.
        self._intake.fetch(max_messages, max_bytes)
        return self._claim_waiting(batch, max_messages, max_bytes)

    def _claim_waiting(self, batch: int, max_messages: int | None, max_bytes: int | None) -> bool:
        parts = min(self._options.num_partitions, self._backlog.look())
        if not parts:
            return False
        claim = self._group.begin(batch, parts)
        limits = BatchLimits(parts, max_messages, max_bytes)
        self._fill(claim, limits)
        if limits.messages and claim.seal():
            return True
        # Nothing was left to take, or another driver sealed this batch; its batch counts then.
        self._group.give_back_open()
        return bool(limits.messages)

    def _fill(self, claim: Claim, limits: BatchLimits) -> None:
        if limits.max_bytes is None:
            limits.messages = self._fill_side_by_side(claim, limits)
        while not limits.is_full() and (message := self._backlog.pop()) is not None:
            taken = claim.take(*message, limits.part_for)
            limits.messages += taken is Taken.YES
            if taken is Taken.TOO_LONG:
                self._backlog.leave(*message)
            if taken is Taken.DECLINED:
                self._backlog.put_back(*message)
                return

    def _fill_side_by_side(self, claim: Claim, limits: BatchLimits) -> int:
        """Fill a claim with several processes. Returns how many messages that were, or 0 if there
        are too few for that. With a limit of bytes one process does it, because it has to see each
        message before the next one."""
        waiting = self._backlog.look()
        wanted = waiting if limits.max_messages is None else min(waiting, limits.max_messages)
        if wanted < SIDE_BY_SIDE_FROM:
            return 0
        return claim_side_by_side(claim, self._backlog.pop_many(wanted), limits.parts)

    def parts_between(self, start: int, end: int) -> list[str]:
        """Return the parts of the batches after `start` up to `end`. Raises ClaimError if one is
        gone."""
        return [part for batch in range(start + 1, end + 1) for part in self._group.parts(batch)]

    def finish(self, batch: int) -> None:
        """Let the messages of batches up to this one go: they are in Spark's commit log."""
        self._group.finish(batch, self._options.archives)
        if self._intake is not None:
            self._intake.reap()
