"""Writing to queues, in batches and streams: every task stages, the driver commits.

What a task attempt has staged counts only if the driver's transaction names it; so a task that is
tried again, speculated or killed leaves nothing in a queue. A batch that is committed already is
not staged again: the earlier commit is finished instead.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from mq.lifecycle import Actor
from mq.spool.files import HIDDEN, Files
from mq.spool.folders import Spool
from mq.spool.root import visit_root
from mq.spool.staging import Attempt
from mq.spool.transactions import commit, give_up_batch, is_committed, last_committed
from pyspark_mq.options import Options
from pyspark_mq.rows import drafts_of

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


@dataclass
class Staged(WriterCommitMessage):  # type: ignore[misc]
    """What one attempt has staged; `attempt` is None if that was nothing."""

    job: str
    batch: int
    attempt: str | None


def stage(options: Options, job: str, batch: int, batches: Iterator[pa.RecordBatch]) -> Staged:
    """Runs in a task. Durable on return."""
    spool = visit_root(options.root, Files(), Actor.SPARK)
    try:
        if is_committed(spool, job, batch):
            return Staged(job, batch, None)
        return Staged(job, batch, _stage(spool, options, job, batch, batches))
    finally:
        spool.close()


def _stage(
    spool: Spool, options: Options, job: str, batch: int, batches: Iterator[pa.RecordBatch]
) -> str | None:
    context = TaskContext.get()
    name = f"{context.partitionId()}-{context.taskAttemptId()}-{uuid.uuid4().hex[:8]}"
    attempt: Attempt | None = None
    try:
        for draft in drafts_of(batches, options.queues):
            if attempt is None:
                attempt = Attempt(spool, job, batch, name)
            attempt.add(draft)
        if attempt is None:
            return None
        attempt.seal()
    except BaseException:
        if attempt is not None:
            attempt.give_up()
        raise
    return name


def commit_staged(options: Options, job: str, batch: int, messages: list[Any]) -> None:
    """Runs in the driver."""
    spool = visit_root(options.root, Files(), Actor.SPARK)
    try:
        winners = [message.attempt for message in messages if message and message.attempt]
        commit(spool, job, batch, winners)
    finally:
        spool.close()


def abort_staged(options: Options, job: str, batch: int) -> None:
    """Nothing of the batch counts, unless an earlier try was committed."""
    spool = visit_root(options.root, Files(), Actor.SPARK)
    try:
        if not is_committed(spool, job, batch):
            give_up_batch(spool, job, batch)
    finally:
        spool.close()


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """One write. With a transaction's name and version it is done once, however often it is run."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._job = options.txn_app_id or f"{HIDDEN}{uuid.uuid4()}"
        self._batch = options.txn_version or 0
        self._is_done = options.txn_app_id is not None and self._is_behind()

    def _is_behind(self) -> bool:
        """Whether this version, or a later one, is committed."""
        spool = visit_root(self._options.root, Files(), Actor.SPARK)
        try:
            last = last_committed(spool, self._job)
        finally:
            spool.close()
        return last is not None and last >= self._batch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        if self._is_done:
            return Staged(self._job, self._batch, None)
        return stage(self._options, self._job, self._batch, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if not (self._options.txn_app_id and self._is_behind()):
            commit_staged(self._options, self._job, self._batch, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort_staged(self._options, self._job, self._batch)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
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

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        for job in _jobs(messages):
            abort_staged(self._options, job, batchId)


def _jobs(messages: list[Any]) -> set[str]:
    """One; none if the batch had no task, or none of them ended well."""
    return {message.job for message in messages if message}
