"""The columns that are read, and messages as record batches of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from mq.config import DEFAULT_CONTENT_TYPE, MAX_SPARK_MESSAGE_BYTES, MIB
from mq.disk.files import Files
from mq.errors import MQError
from mq.names import MessageId, QueueName
from mq.spool.message.held import Opened
from mq.spool.message.seal import unless_unreadable
from mq.spool.message.trailer import split

SCHEMA = StructType(
    [
        StructField("queue", StringType()),
        StructField("id", StringType()),
        StructField("value", BinaryType()),
        StructField("content_type", StringType()),
        StructField("published_at", TimestampType()),
        StructField("receive_count", IntegerType()),
        StructField("state", StringType()),
        StructField("length", LongType()),
        StructField("properties", MapType(StringType(), StringType())),
    ]
)

_ARROW = pa.schema(
    [
        ("queue", pa.string()),
        ("id", pa.string()),
        ("value", pa.binary()),
        ("content_type", pa.string()),
        ("published_at", pa.timestamp("us", tz="UTC")),
        ("receive_count", pa.int32()),
        ("state", pa.string()),
        ("length", pa.int64()),
        ("properties", pa.map_(pa.string(), pa.string())),
    ]
)

_BATCH_ROWS = 2000
_BATCH_BYTES = 8 * MIB
MAX_RECEIVE_COUNT = 2**31 - 1
"""The largest receive count that the column can hold."""


class DamagedMessage(MQError):
    """A message fails its seal, in the mode `failfast`."""


class MessageRow(NamedTuple):
    """One message, in the order of the columns. `value` is None if it is damaged or too long."""

    queue: str
    id: str
    value: bytes | None
    content_type: str
    published_us: int
    receive_count: int
    state: str
    length: int
    properties: list[tuple[str, str]]


def read_row(
    files: Files, opened: Opened, queue: QueueName, message_id: MessageId, state: str
) -> MessageRow:
    """Read the whole message; one that cannot be read (a lasting EIO) is damaged, and one that
    Spark cannot hold has no value either. Raises OSError."""
    data = None
    if opened.status.st_size <= MAX_SPARK_MESSAGE_BYTES:
        data = unless_unreadable(lambda: files.read(opened.fd, opened.status.st_size))
    content = None if data is None else split(opened.seal, data)
    bare = row_without_body(opened, queue, message_id, state)
    return bare._replace(
        value=None if content is None else content.body,
        length=len(data) if opened.seal is None and data is not None else bare.length,
        properties=[] if content is None else sorted(content.properties.items()),
    )


def row_without_body(
    opened: Opened, queue: QueueName, message_id: MessageId, state: str
) -> MessageRow:
    """Return what is known of a message whose body and properties nobody reads."""
    return MessageRow(
        queue,
        message_id,
        None,
        (opened.content_type() if opened.may_have_type() else None) or DEFAULT_CONTENT_TYPE,
        opened.published_ns(message_id) // 1000,
        min(opened.receive_count, MAX_RECEIVE_COUNT),
        state,
        # A damaged seal may say a length that the column cannot hold, nor any file have.
        opened.length if opened.is_as_long_as_sealed() else opened.status.st_size,
        [],
    )


def refuse_damaged(row: MessageRow, path: str) -> None:
    is_too_long = row.length > MAX_SPARK_MESSAGE_BYTES
    why = "is longer than Spark can hold" if is_too_long else "fails its seal"
    raise DamagedMessage(
        f"message {path} {why}; with the option mode=permissive its value is null and "
        f"the others go on (queue {row.queue}, id {row.id})"
    )


def to_batches(rows: Iterable[MessageRow]) -> Iterator[pa.RecordBatch]:
    """Yield the rows as record batches of a bounded size."""
    gathered: list[MessageRow] = []
    gathered_bytes = 0
    for row in rows:
        gathered.append(row)
        gathered_bytes += row.length + sum(map(_bytes_of, row.properties))
        if len(gathered) >= _BATCH_ROWS or gathered_bytes >= _BATCH_BYTES:
            yield _to_batch(gathered)
            gathered, gathered_bytes = [], 0
    if gathered:
        yield _to_batch(gathered)


def _bytes_of(pair: tuple[str, str]) -> int:
    # They are ASCII. With 8 MiB in each message a batch would be more than Arrow can hold.
    return len(pair[0]) + len(pair[1])


def _to_batch(rows: list[MessageRow]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
