"""The columns of a lake: those that each lake has, and those of JSON bodies."""

from __future__ import annotations

import json
import uuid
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pyspark_mq.pipeline.json_texts import is_one_json
from pyspark_mq.pipeline.lake.folder import LakeFolder
from pyspark_mq.pipeline.lake.lake import Lake
from pyspark_mq.pipeline.lake.merging import first_conflict
from pyspark_mq.pipeline.lake.placing import INCOMING, LakeDamaged
from pyspark_mq.pipeline.running.causes import JobRefused, reason_of
from pyspark_mq.pipeline.whole_files import reader_of
from pyspark_mq.reading.read_columns import SCHEMA

BASE = (
    "id string, value binary, content_type string, published_at timestamp, receive_count int, "
    "length bigint, properties map<string, string>, queue string, day string"
)
_COLUMNS = "_columns"
"""The folder with a file for each time that columns were added, in their order."""
_DAY_SECONDS = 24 * 60 * 60
_BAD = "_body_that_does_not_fit"


def parse_schema(spark: Any, text: str) -> StructType:
    """Parse --schema, which is DDL. Raises JobRefused."""
    try:
        found = spark.createDataFrame([], text).schema if text.strip() else StructType()
    except (PySparkException, Py4JJavaError, ValueError, TypeError) as error:
        raise JobRefused(
            f"--schema {text!r}: {reason_of(error)}; write it as 'item string, price double'"
        ) from None
    names = [field.name.lower() for field in found.fields]
    if not names or len(set(names)) < len(names):
        why = "a column is named twice" if names else "it names no column"
        raise JobRefused(f"--schema {text!r}: {why}; write it as 'item string, price double'")
    return found


def keep_columns(spark: Any, folder: LakeFolder, schema: StructType) -> None:
    """Write down the columns of bodies, with those that the lake has already. A column keeps its
    type for ever, or nothing could read the lake as a whole. Raises JobRefused."""
    versions = [name for name in folder.names(_COLUMNS) if name.endswith(".json")]
    known = StructType()
    if versions:
        known = _read_columns(folder, f"{_COLUMNS}/{versions[-1]}")
    before = len(known.fields)
    types = {field.name.lower(): field.dataType for field in known.fields}
    for field in schema.fields:
        kept = types.get(field.name.lower())
        if kept is None:
            known.add(field.name, field.dataType)
        elif kept != field.dataType:
            raise JobRefused(
                f"--schema: column {field.name} is {field.dataType.simpleString()}, and the lake "
                f"has it as {kept.simpleString()}; keep the type, give it another name, or "
                "archive to another lake"
            )
    if len(known.fields) > before:
        _try_out(spark, folder, known)
        folder.write(f"{_COLUMNS}/{len(versions):06}.json", known.json())


def _read_columns(folder: LakeFolder, name: str) -> StructType:
    """Read one of the files. Raises LakeDamaged."""
    try:
        return StructType.fromJson(json.loads(folder.read(name)))
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, PySparkException):
        raise LakeDamaged(
            f"{folder.full(name)} is damaged, and does not tell the columns that body has in this "
            "lake: move it away, and give --schema once with all of them, as the lake's files "
            "have them"
        ) from None


def _try_out(spark: Any, folder: LakeFolder, schema: StructType) -> None:
    """Write and read a file with one message: Spark knows types that JSON or Parquet has not, and a
    column that is written down stays. Raises JobRefused."""
    trial = f"{INCOMING}/columns.{uuid.uuid4()}"
    message = spark.createDataFrame([{"value": b"{}"}], SCHEMA)
    try:
        lake_rows(message, schema).write.parquet(folder.full(trial))
        spark.read.parquet(folder.full(trial))
    except (AnalysisException, UnsupportedOperationException) as error:
        raise JobRefused(
            f"--schema: a lake cannot have these columns: {reason_of(error).rstrip('.')}; choose "
            "another type or name"
        ) from None
    finally:
        folder.remove(trial)


def lake_rows(frame: Any, schema: StructType | None) -> Any:
    """Return the columns of the lake. With a schema the JSON body is in `body`; a body that does
    not fit it is in `bad_body` as text, and `body` has what could be read of it."""
    rows = frame.select(
        "queue",
        _day_in_utc("published_at").alias("day"),
        "id",
        "value",
        "content_type",
        "published_at",
        "receive_count",
        "length",
        "properties",
    )
    if schema is None:
        return rows
    text = F.col("value").cast("string")
    whole = StructType([*schema.fields]).add(_BAD, "string")
    read = F.from_json(text, whole, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BAD})
    rows = rows.withColumn("body", read)
    # An empty body does not fit either, nor does an object with something after it.
    is_bad = F.col(f"body.{_BAD}").isNotNull() | F.col("body").isNull() | ~is_one_json(text)
    rows = rows.withColumn("bad_body", F.when(is_bad, text))
    return rows.withColumn("body", F.col("body").dropFields(_BAD))


def _day_in_utc(time: str) -> Any:
    """Return the day of a time as text. Spark's own functions ask for it in the time zone of the
    session, which `spark-submit` may set to any."""
    days = F.floor(F.unix_seconds(time) / _DAY_SECONDS).cast("int")
    return F.date_from_unix_date(days).cast("string")


def read_rows(spark: Any, lake: Lake, with_bodies: bool) -> Any | None:
    """Return the rows of a lake, or None if it has none. `with_bodies` reads the columns `body` and
    `bad_body` too. Raises JobRefused if the files are not those of an archive, LakeBusy."""
    files = lake.files()
    if not files:
        return None
    reader = reader_of(spark).option("basePath", lake.folder.url)
    found = reader.parquet(files[0]).columns
    missing = [name for name in ("id", "value", "published_at", "day") if name not in found]
    if missing:
        raise JobRefused(
            f"{files[0]} has no column {missing[0]}, so it is not part of a lake that mq-pipeline "
            "archive has made; load can read it"
        )
    if not with_bodies:
        return reader.schema(BASE).parquet(*files)
    try:
        return reader.option("mergeSchema", "true").parquet(*files)
    except (PySparkException, Py4JJavaError) as error:
        if "CANNOT_MERGE" not in str(error):
            raise
        raise JobRefused(
            f"lake {lake.folder.url}: its files have the same column in two types, so an "
            "expression cannot use them; leave out --where, filter by Spark, or rename one to "
            f"_NAME: {first_conflict(spark, files) or reason_of(error)}"
        ) from None
