"""Writing to queues, in batches and streams: every task stages, the driver commits.

What a task attempt has staged counts only if the driver's transaction names it; so a task that is
tried again, speculated or killed leaves nothing in a queue. A batch that is committed already is
not staged again: the earlier commit is finished instead.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from mq.disk.calls import CHAINS_AT_ONCE
from mq.disk.files import HIDDEN, Files
from mq.errors import (
    ClaimError,
    InvalidRequest,
    MQError,
    PropertiesTooLarge,
    StoreUnavailable,
)
from mq.names import QueueName
from mq.properties import require_http_size
from mq.spool.spark.jobs import Job
from mq.spool.spark.staging import Attempt, StagedMessage
from mq.spool.spark.transactions import commit, sweep_transactions
from mq.spool.spool import Spool
from pyspark_mq.by_url.staging import make_staged_queue, open_staging, reap_staged
from pyspark_mq.job_root import visit_job_root
from pyspark_mq.options.addresses import Addresses
from pyspark_mq.options.option_values import BadOption
from pyspark_mq.options.options import Options
from pyspark_mq.portable import Portable
from pyspark_mq.writing.write_columns import drafts_of

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"

_NOT_AGAIN = (
    "write the same rows again only with the same txnAppId and txnVersion, or from the checkpoint "
    "of the same query"
)


_SWEEP = "A server's sweep"
_NEXT_WRITE = "Any write with this staging, even one without rows,"


class NotBrought(MQError):
    """A write is committed, and not all of it is in its queues; the text says what to do. `last` is
    the batch that counts: this one or a later one."""

    def __init__(self, last: int, detail: str) -> None:
        super().__init__(detail)
        self.last = last


@dataclass
class Staged(WriterCommitMessage):
    """What one attempt has staged. `attempt` is None if that was nothing, because there were no
    rows, or the batch was committed before."""

    job: str
    batch: int
    attempt: str | None
    was_committed: bool = False


@contextmanager
def _opened(options: Options, name: str, files: Files | None = None) -> Iterator[Job]:
    with closing(visit_job_root(options, files)) as spool:
        yield Job(spool, name)


def stage(options: Options, name: str, batch: int, batches: Iterator[pa.RecordBatch]) -> Staged:
    """Stage the rows of a task. It is durable on return."""
    with _opened(options, name) as job:
        if job.is_committed(batch):
            return Staged(name, batch, None, was_committed=True)
        return Staged(name, batch, _stage(job, batch, options, batches))


def _stage(job: Job, batch: int, options: Options, batches: Iterator[pa.RecordBatch]) -> str | None:
    context = TaskContext.get()
    name = f"{context.partitionId()}-{context.taskAttemptId()}-{uuid.uuid4().hex[:8]}"
    attempt: Attempt | None = None
    try:
        drafts = _with_queues(job.spool, options, drafts_of(batches, options.queues))
        while some := list(islice(drafts, CHAINS_AT_ONCE)):
            if attempt is None:
                attempt = Attempt(job, batch, name)
            attempt.add(some)
        if attempt is None:
            return None
        attempt.seal()
    except BaseException:
        if attempt is not None:
            attempt.give_up()
        raise
    return name


def _with_queues(
    spool: Spool, options: Options, drafts: Iterator[StagedMessage]
) -> Iterator[StagedMessage]:
    """Yield the messages. By url their queues are made in the staging once the servers have said
    that they have them. Raises QueueNotFound, ClientError, and InvalidRequest for properties that
    no server takes: what is committed must not wait in the staging for ever."""
    if options.addresses is None:
        yield from drafts
        return
    from pyspark_mq.by_url.servers import ServerChoice

    seen: set[QueueName] = set()
    with ServerChoice(options.addresses) as servers:
        for draft in drafts:
            try:
                require_http_size(draft.properties)
            except PropertiesTooLarge as error:
                raise InvalidRequest(f"column properties: {error} by url") from None
            if draft.queue not in seen:
                servers.counts(draft.queue)
                make_staged_queue(spool, draft.queue)
                seen.add(draft.queue)
            yield draft


def forward(options: Options) -> None:
    """Publish what is committed, by url. This runs in the driver. Raises NotForwarded."""
    if options.addresses is None:
        return
    from pyspark_mq.by_url.forward import NotForwarded

    try:
        _forward(options, options.addresses)
    except NotForwarded:
        raise
    except (MQError, BadOption, OSError) as error:
        raise NotForwarded(
            f"the write is committed, but not all of it is at the servers: {error}. The rest waits "
            f"in {options.root}, and any write with this staging publishes it, even one without "
            f"rows; {_NOT_AGAIN}"
        ) from error


def _forward(options: Options, addresses: Addresses) -> None:
    from pyspark_mq.by_url.forward import Forwarder
    from pyspark_mq.by_url.servers import ServerChoice

    with closing(visit_job_root(options)) as spool:
        # Where no server sweeps, this finishes what a dead driver has committed, and gives up what
        # it never will.
        sweep_transactions(spool, time.time_ns())
    with closing(open_staging(options.root)) as spool, ServerChoice(addresses) as servers:
        Forwarder(spool, servers).forward()


def commit_staged(
    options: Options, name: str, batch: int, messages: list[Any], files: Files | None = None
) -> int:
    """Commit what was staged. This runs in the driver. Returns the greatest batch of the job that
    counts then; if that is a later one, what was staged for this one does not count. Raises
    NotBrought if it is committed all the same, and what `commit` raises."""
    with _opened(options, name, files) as job:
        try:
            if any(each.was_committed for each in messages if each):
                _require_committed(job, batch)
            return commit(job, batch, _attempts(messages))
        except (OSError, StoreUnavailable) as error:
            last = job.last_committed()
            if last is None or last < batch:
                raise
            # On a staging no server runs.
            who = _SWEEP if options.addresses is None else _NEXT_WRITE
            raise NotBrought(
                last,
                f"the write is committed, but not all of it is in its queues: {error}. {who} "
                f"brings the rest when the cause is gone; {_NOT_AGAIN}",
            ) from error


def _require_committed(job: Job, batch: int) -> None:
    """Raise ClaimError unless the batch is committed. Without that, rows are missing in what the
    other tasks have staged."""
    if not job.is_committed(batch):
        raise ClaimError(
            f"batch {batch} of {job.name} was committed when a task looked, and is not any more: "
            f"{job.spool.root}/spark/{job.txn} was taken away. Write it again"
        )


def abort_staged(options: Options, name: str, batch: int, messages: list[Any]) -> None:
    """Give up what these tasks have staged, unless it was committed before that failed. What
    another driver's tasks have staged for the same batch is not touched."""
    with _opened(options, name) as job:
        job.give_up(batch, _attempts(messages))
    if options.addresses is not None:
        # No reaper works there, and on a full disk no later write comes so far as to unlink it.
        with closing(open_staging(options.root)) as spool:
            reap_staged(spool)


def _attempts(messages: list[Any]) -> list[str]:
    return [message.attempt for message in messages if message and message.attempt]


class BatchWriter(Portable, DataSourceArrowWriter):
    """One write. With the name and version of a transaction it is done once, however often it is
    run."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._job = options.txn_app_id or f"{HIDDEN}{uuid.uuid4()}"
        self._batch = options.txn_version or 0
        self._was_committed = options.txn_app_id is not None and self._is_behind()

    def _is_behind(self) -> bool:
        """Return whether this version, or a later one, is committed."""
        with _opened(self._options, self._job) as job:
            return job.is_committed(self._batch)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return stage(self._options, self._job, self._batch, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit. What was committed before is brought all the same: its driver may have died
        before everything was there."""
        try:
            last = commit_staged(self._options, self._job, self._batch, messages)
        except NotBrought as error:
            self._require_it_counts(error.last)
            raise
        self._require_it_counts(last)
        forward(self._options)

    def _require_it_counts(self, last: int) -> None:
        if last > self._batch and not self._was_committed:
            raise ClaimError(
                f"txnAppId {self._job}: version {last} was committed while version {self._batch} "
                "was written, so this one does not count; write it under a later version"
            )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort_staged(self._options, self._job, self._batch, messages)


class StreamWriter(Portable, DataSourceStreamArrowWriter):
    """A sink. Only a task knows the query's id, so the driver learns it from what tasks return."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        context = TaskContext.get()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        return stage(self._options, query, int(batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        for job in _jobs(messages):
            commit_staged(self._options, job, batchId, messages)
        forward(self._options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        for job in _jobs(messages):
            abort_staged(self._options, job, batchId, messages)


def _jobs(messages: list[Any]) -> set[str]:
    """Return the job, and none if the batch had no task, or none of them ended well."""
    return {message.job for message in messages if message}
