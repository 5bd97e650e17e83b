"""The data source `mq`, as Spark asks for it."""

from __future__ import annotations

from typing import NoReturn

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pyspark_mq.by_url.staging import prepare_staging
from pyspark_mq.job_root import visit_job_root
from pyspark_mq.options.option_values import BadOption
from pyspark_mq.options.options import (
    BATCH_READ,
    BATCH_WRITE,
    READ,
    STREAM_READ,
    STREAM_WRITE,
    Options,
    parse_options,
)
from pyspark_mq.reading.batch_read import BatchReader
from pyspark_mq.reading.read_columns import SCHEMA
from pyspark_mq.reading.stream_read import StreamReader
from pyspark_mq.writing.write import BatchWriter, StreamWriter
from pyspark_mq.writing.write_columns import check_columns


class MqDataSource(DataSource):
    """The queues of a root, or of servers, to be read and written in batches and streams."""

    @classmethod
    def name(cls) -> str:
        return "mq"

    def schema(self) -> StructType:
        parse_options(self.options, READ)
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        _require_own_schema(schema)
        options = parse_options(self.options, BATCH_READ)
        if options.addresses is None:
            return BatchReader(options)
        from pyspark_mq.reading.peek_read import PeekReader

        return PeekReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            _require_own_schema(schema)
            return StreamReader(parse_options(self.options, STREAM_READ))
        except BadOption as error:
            return RefusedReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = parse_options(self.options, BATCH_WRITE)
        check_columns(schema, options.queues, overwrite)
        _prepare(options)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = parse_options(self.options, STREAM_WRITE)
        check_columns(schema, options.queues, overwrite)
        _prepare(options)
        return StreamWriter(options)


class RefusedReader(DataSourceStreamReader):
    """Reports errors when it is asked, because PySpark hides an error of `streamReader` behind
    another one."""

    def __init__(self, error: BadOption) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:
        raise self._error

    def latestOffset(self, *_: object) -> NoReturn:
        raise self._error

    def partitions(self, *_: object) -> NoReturn:
        raise self._error

    def read(self, *_: object) -> NoReturn:
        raise self._error


def _prepare(options: Options) -> None:
    """Make the staging, or check that the root exists. Raises StartRefused before there is a task
    that would meet the same error, and hide it in Spark's own."""
    if options.addresses is not None:
        prepare_staging(options.root, options.addresses.urls)
    else:
        visit_job_root(options).close()


def _require_own_schema(schema: StructType) -> None:
    if schema != SCHEMA:
        raise BadOption(
            "the source mq defines its own columns; leave out schema(...) and select from "
            f"{', '.join(SCHEMA.names)}"
        )
