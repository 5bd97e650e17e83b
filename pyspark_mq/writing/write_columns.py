"""The columns that are written, and rows of them as messages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, MapType, NumericType, StringType, StructType

from mq.config import MAX_CONTENT_TYPE_BYTES, MAX_DELAY_SECONDS
from mq.errors import InvalidRequest, PropertiesTooLarge
from mq.lines.ndjson import is_content_type
from mq.names import QueueName, is_fifo, parse_message_id, parse_queue_name
from mq.properties import (
    MAX_STORED_PROPERTIES_BYTES,
    Properties,
    check_properties,
    require_size,
)
from mq.spool.spark.staging import StagedMessage
from pyspark_mq.options.option_values import BadOption
from pyspark_mq.options.options import FIFO_REFUSED
from pyspark_mq.options.queue_patterns import is_pattern

COLUMNS = {
    "value": (BinaryType, StringType),
    "queue": (StringType,),
    "id": (StringType,),
    "delay": (NumericType,),
    "content_type": (StringType,),
    "properties": (MapType,),
}
_WORDS = {BinaryType: "binary", StringType: "string", NumericType: "a number of seconds",
          MapType: "a map of strings to strings"}  # fmt: skip


def check_columns(schema: StructType, queues: tuple[str, ...], overwrite: bool) -> None:
    """Check the columns before anything is written. Raises BadOption."""
    if overwrite:
        raise BadOption(
            'a queue cannot be overwritten; use mode("append"), or outputMode("append") of a stream'
        )
    for field in schema.fields:
        allowed = COLUMNS.get(field.name)
        if allowed is None:
            raise BadOption(f"column {field.name}: unknown; there are {', '.join(COLUMNS)}")
        if not isinstance(field.dataType, allowed) or _is_other_map(field.dataType):
            words = " or ".join(_WORDS[each] for each in allowed)
            raise BadOption(
                f"column {field.name}: {field.dataType.simpleString()}, and it must be {words}"
            )
    if "value" not in schema.names:
        raise BadOption("column value: missing; it is the body of the message, binary or string")
    if len(queues) > 1 or any(map(is_pattern, queues)):
        raise BadOption("option queue: name one queue, or give each row its own in a column queue")
    if not queues and "queue" not in schema.names:
        raise BadOption("option queue: missing; name a queue, or add a column queue")


def _is_other_map(kind: DataType) -> bool:
    return isinstance(kind, MapType) and not (
        isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)
    )


def drafts_of(
    batches: Iterator[pa.RecordBatch], queues: tuple[str, ...]
) -> Iterator[StagedMessage]:
    """Yield a message for each row. `queues` holds the queue for rows that name none. Raises
    InvalidRequest, InvalidName."""
    default = QueueName(queues[0]) if queues else None
    for batch in batches:
        names = batch.schema.names
        columns = [_values(name, column) for name, column in zip(names, batch.columns, strict=True)]
        for values in zip(*columns, strict=True):
            yield _draft(dict(zip(names, values, strict=True)), default)


def _values(name: str, column: pa.Array) -> list[Any]:
    """Return what is in a column. A string that is a body is its bytes: Spark makes strings of
    bytes that are not UTF-8, too."""
    values: list[Any] = (column.cast(pa.binary()) if name == "value" else column).to_pylist()
    return values


def _draft(row: dict[str, Any], default: QueueName | None) -> StagedMessage:
    value, queue, message_id = row["value"], row.get("queue"), row.get("id")
    if value is None:
        raise InvalidRequest("column value: null; a message needs a body, which may be empty")
    target = parse_queue_name(queue) if queue is not None else default
    if target is None:
        raise InvalidRequest("column queue: null, and the option queue is not set")
    if is_fifo(target):
        raise InvalidRequest(f"column queue: {FIFO_REFUSED.format(target)}")
    return StagedMessage(
        target,
        value,
        parse_message_id(message_id) if message_id is not None else None,
        _content_type(row.get("content_type")),
        _delay(row.get("delay")),
        _properties(row.get("properties")),
    )


def _content_type(text: str | None) -> str | None:
    if text is not None and not (text and is_content_type(text)):
        raise InvalidRequest(
            f"column content_type: {text!r} is not up to {MAX_CONTENT_TYPE_BYTES} printable ASCII "
            "characters"
        )
    return text


def _properties(pairs: list[tuple[str, str | None]] | None) -> Properties:
    """Return the properties in a map of Arrow."""
    try:
        for name, value in pairs or ():
            if value is None:
                raise InvalidRequest(f"property {name!r} is null; leave it out of the map")
        properties = check_properties((name, value or "") for name, value in pairs or ())
        require_size(properties, MAX_STORED_PROPERTIES_BYTES)
    except (InvalidRequest, PropertiesTooLarge) as error:
        raise InvalidRequest(f"column properties: {error}") from None
    return properties


def _delay(seconds: Any) -> float:
    delay = 0.0 if seconds is None else float(seconds)
    if not math.isfinite(delay) or not 0 <= delay <= MAX_DELAY_SECONDS:
        raise InvalidRequest(
            f"column delay: {seconds} is not a number of seconds from 0 to {MAX_DELAY_SECONDS}"
        )
    return delay
