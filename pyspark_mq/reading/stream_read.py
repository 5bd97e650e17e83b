"""A streaming read: each batch is a claim, sealed before Spark hears of it.

Spark's checkpoint holds {"seq": N}, the number of the last batch. Until N is in Spark's commit log
its messages lie in one sealed folder that does not change, so N reads the same after any crash.
`latestOffset(start)` is asked only once `start` is in the commit log; so all up to there is done.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain, count
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from mq.errors import ClaimError
from mq.lifecycle import Folder
from mq.names import parse_file_name
from mq.spool.message.held import Opened, seal_of
from mq.spool.spark.claims import Group
from mq.spool.spark.group_owner import UNNAMED, Owner
from mq.spool.spool import Spool
from pyspark_mq.job_root import visit_job_root
from pyspark_mq.options.options import Options
from pyspark_mq.portable import Portable
from pyspark_mq.reading.driver import Driver
from pyspark_mq.reading.read_columns import MessageRow, read_row, refuse_damaged, to_batches

Offset = dict[str, Any]

QUERY_ID = "sql.streaming.queryId"


class Part(InputPartition):
    """One part of a sealed batch, as a driver gives it to a task; `start` is the batch before."""

    def __init__(self, path: str, start: int, driver: str) -> None:
        self.path = path
        self.start = start
        self.driver = driver


class StreamReader(Portable, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Runs in the driver's Python, except for `read`, which runs in the tasks."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._driver: Driver | None = None
        self._reads_what_is_there = False

    def initialOffset(self) -> Offset:
        """Return the first offset. Spark asks twice for the first batch, and again when that is
        replayed."""
        if self._driver is None:
            # This comes before the driver of a query that may own the group is fenced off.
            driver = self._open()
            driver.first_start()
            self._driver = self._begin(driver)
        return {"seq": self._driver.first_start()}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        rows, size = self._limits(limit)
        return {"seq": self._driver_from(start).next_batch(start["seq"], rows, size)}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages)

    def _limits(self, limit: ReadLimit) -> tuple[int | None, int | None]:
        """Return the limits of messages and bytes. Spark sets one at a time; if it asks for
        everything, none holds."""
        if isinstance(limit, ReadAllAvailable):
            return None, None
        return self._options.max_messages, self._options.max_bytes

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there when the driver begins, and no more. Spark says so before it asks for
        the first offset, so nobody is fenced off yet."""
        self._reads_what_is_there = True

    def reportLatestOffset(self) -> Offset | None:
        return None if self._driver is None else self._driver.report()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        driver = self._driver_from(start)
        return [
            Part(path, start["seq"], driver.name)
            for path in driver.parts_between(start["seq"], end["seq"])
        ]

    def commit(self, end: Offset) -> None:
        self._driver_from(end).finish(end["seq"])

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with closing(visit_job_root(self._options)) as spool:
            if isinstance(partition, Part):
                self._require_own(spool, partition)
                yield from to_batches(self._rows(spool, partition.path))

    def _require_own(self, spool: Spool, partition: Part) -> None:
        """Raise ClaimError if another driver has taken over, as that of another source of the query
        does: both would read the same batch. Raise it too if the group belongs to another query.
        Only a task knows the query's id, and not every one."""
        group = Group(spool, self._options.group, partition.driver)
        group.require_driver()
        query = TaskContext.get().getLocalProperty(QUERY_ID) or UNNAMED
        group.take_for(Owner(query, partition.start), self._options.takes_over)

    def _rows(self, spool: Spool, path: str) -> Iterator[MessageRow]:
        folder_fd = self._open_part(spool, path)
        try:
            for name in sorted(os.listdir(folder_fd)):
                parsed = parse_file_name(name)
                if parsed is None:
                    continue
                fd = spool.files.open_to_look(folder_fd, name)
                with Opened(
                    spool.files, name, fd, os.fstat(fd), seal_of(spool.files, fd)
                ) as opened:
                    row = read_row(spool.files, opened, *parsed, "claimed")
                    if row.value is None:
                        self._keep_damaged(spool, fd, row, f"{Folder.SPARK}/{path}/{name}")
                yield row
        finally:
            spool.files.close(folder_fd)

    def _open_part(self, spool: Spool, path: str) -> int:
        try:
            return spool.files.open_folder(spool.fd(Folder.SPARK), path)
        except FileNotFoundError:
            raise ClaimError(
                f"group {self._options.group}: {spool.path(Folder.SPARK, path)} is not there any "
                "more: the batch is done already, or it was taken away"
            ) from None

    def _keep_damaged(self, spool: Spool, fd: int, row: MessageRow, path: str) -> None:
        """Give the file a second name in `corrupt`, where a person finds it when the batch is long
        gone. The claim stays as it is."""
        if self._options.is_failfast:
            refuse_damaged(row, path)
        flat = f"{row.queue}:{row.id}"
        for name in chain([flat], (f"{flat}~{number}" for number in count(2))):
            try:
                return spool.link(fd, Folder.CORRUPT, name, source=Folder.SPARK)
            except FileExistsError:
                if spool.inode(Folder.CORRUPT, name) == os.fstat(fd).st_ino:
                    return  # An earlier read of this batch did that.

    def _driver_from(self, offset: Offset) -> Driver:
        """Return the driver of this process. The first call fences off the one before, unless the
        checkpoint, which is at `offset`, is refused. Spark may ask first for the parts of a batch:
        one that was not done when its last driver ended."""
        if self._driver is None:
            driver = self._open()
            driver.require_current(offset["seq"])
            self._driver = self._begin(driver)
        return self._driver

    def _begin(self, driver: Driver) -> Driver:
        driver.fence()
        if self._reads_what_is_there:
            driver.freeze()
        return driver

    def _open(self) -> Driver:
        driver = Driver(self._options)
        driver.begin()
        return driver
