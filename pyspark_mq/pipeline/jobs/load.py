"""load: from files of Parquet, CSV or JSON lines to a queue, each row once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ArithmeticException, PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType, VariantType

from pyspark_mq.pipeline.jobs.publishing import digest_of, publish_once
from pyspark_mq.pipeline.json_texts import is_one_json
from pyspark_mq.pipeline.places import QueuePlace
from pyspark_mq.pipeline.running.causes import JobRefused, reason_of
from pyspark_mq.pipeline.running.progress import ProgressLine
from pyspark_mq.pipeline.whole_files import reader_of_folders, reader_of_partitions

_JSON = "application/json"
_NESTED = (StructType, ArrayType, MapType, VariantType)

_NOT_READABLE = ("PATH_NOT_FOUND", "CANNOT_READ_FILE_FOOTER", "MALFORMED_", "FAILED_READ_FILE",
                 "UNABLE_TO_INFER_SCHEMA", "CANNOT_MERGE", "CONFLICTING_DIRECTORY")  # fmt: skip

_OTHER_HEADER = "their headers differ, or one names a column twice or leaves a name out"

_OF_PATTERNS = re.compile(r"[\\*?\[\]{}]")

_CSV = {
    "header": "true",
    # A quoted field may have several lines, and a quote in it is doubled (RFC 4180).
    "multiLine": "true",
    "escape": '"',
    # A row with more or fewer fields than the header is an error, also if nobody asks for them.
    "mode": "FAILFAST",
    "columnPruning": "false",
    # So is a file with another header than the first one.
    "enforceSchema": "false",
}

_NAMES_TOLD = 20

_TIMES = {
    # Spark would leave out what is below a millisecond.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}

_BESIDE_A_BODY = ("id", "content_type")


@dataclass(frozen=True, slots=True)
class LoadJob:
    """The request of `load`. `body` is the column with the message; None means the column `value`,
    or else the whole row as JSON."""

    paths: tuple[str, ...]
    format: str
    to: str
    body: str | None = None
    name: str | None = None

    @property
    def write_name(self) -> str:
        """The name of the write. It is the same for the same request."""
        if self.name is not None:
            return f"load-{self.name}"
        return f"load-{digest_of((self.paths, self.format, self.to, self.body))}"


def load(spark: Any, place: QueuePlace, job: LoadJob, line: ProgressLine) -> int:
    """Publish the rows of some files as one write. Returns how many messages that were, 0 if this
    write was done before or there are no rows. Raises JobRefused if the files are not what the job
    says, and what the write raises; then nothing is published."""
    place.require_target(job.to)
    try:
        return publish_once(_messages(spark, job), place, job.to, job.write_name, line)
    except (PySparkException, Py4JJavaError) as error:
        if any(each in str(error) for each in _NOT_READABLE):
            raise _unreadable(job, error) from None
        raise


def _unreadable(job: LoadJob, error: Exception) -> JobRefused:
    has_other_header = "CSV header does not conform" in str(error)
    why = _OTHER_HEADER if has_other_header else reason_of(error)
    return JobRefused(
        f"{', '.join(job.paths)} cannot be read as {job.format}: {why.rstrip('.')}; nothing was "
        "published"
    )


def _messages(spark: Any, job: LoadJob) -> Any:
    """Return the columns that are written. Raises JobRefused, and what Spark raises."""
    try:
        return _read(spark, job)
    except (AnalysisException, ArithmeticException) as error:
        # Spark has no such type, or no such precision, or the like.
        raise _unreadable(job, error) from None


def _read(spark: Any, job: LoadJob) -> Any:
    paths = [_as_spark_reads_it(spark, path) for path in job.paths]
    if job.format != "parquet":
        _require_utf8(reader_of_folders(spark).text(paths), job.paths)
    if job.format == "json":
        lines = reader_of_folders(spark).text(paths).where(F.length(F.trim("value")) > 0)
        _require_json(lines, job.paths)
        if job.body is None:
            # Each line is a message as it is.
            return lines.select("value", F.lit(_JSON).alias("content_type"))
        objects = reader_of_folders(spark)
        return _values(lines, lambda texts: objects.schema(texts).json(paths), job, job.body)
    reader = reader_of_partitions(spark, paths)
    if job.format == "csv":
        rows = reader.options(**_CSV).csv(paths)
    else:
        rows = reader.option("mergeSchema", "true").parquet(*paths)
    return _bodies(rows, job)


def _as_spark_reads_it(spark: Any, path: str) -> str:
    """Return the path by which Spark reads what is there. It would take the name of a file for a
    pattern, and find other files or none. Raises JobRefused for a file that it would leave out
    without a word."""
    found = spark._jvm.org.apache.hadoop.fs.Path(path)
    files = found.getFileSystem(spark._jsc.hadoopConfiguration())
    if not files.exists(found):
        return path
    if found.getName().startswith(("_", ".")) and not files.isDirectory(found):
        raise JobRefused(
            f"{path}: Spark reads no file whose name begins with _ or .; rename it. Nothing was "
            "published"
        )
    return _OF_PATTERNS.sub(r"\\\g<0>", path)


def _require_utf8(lines: Any, paths: tuple[str, ...]) -> None:
    """Raise JobRefused for bytes in whose place Spark would put other letters."""
    bad = lines.where(~F.is_valid_utf8("value")).select("value").limit(1)
    found = bad.select(F.col("value").cast("binary").alias("line")).collect()
    if found:
        raise JobRefused(
            f"{', '.join(paths)} has a line that is not UTF-8: {bytes(found[0].line[:100])!r}; "
            "nothing was published. Convert it, as with iconv -t UTF-8"
        )


def _require_json(lines: Any, paths: tuple[str, ...]) -> None:
    bad = lines.where(~is_one_json(F.col("value"))).select("value").limit(1).collect()
    if bad:
        raise JobRefused(
            f"{', '.join(paths)} has a line that is not JSON: {bad[0].value[:100]!r}; nothing was "
            "published. Mend it or leave it out"
        )


def _values(lines: Any, texts: Callable[[StructType], Any], job: LoadJob, body: str) -> Any:
    """Return the columns that are written, of objects of JSON; `texts` reads them as text. So a
    number has all its digits, and an object is as it is in the file: the types that Spark would
    choose change both."""
    named = lines.select("value", F.json_object_keys("value").alias("names"))
    bad = named.where(F.col("names").isNull()).limit(1).collect()
    if bad:
        raise JobRefused(
            f"{', '.join(job.paths)} has a line that is not an object: {bad[0].value[:100]!r}; "
            "nothing was published. Leave it out, or publish whole lines, without --body"
        )
    if named.where(F.array_contains("names", body)).isEmpty():
        names = named.select(F.explode("names")).distinct().limit(_NAMES_TOLD).collect()
        raise _no_column(job, body, sorted(row[0] for row in names))
    schema = StructType().add(body, StringType())
    for name in _BESIDE_A_BODY:
        # To Spark two columns that differ in case alone are the same.
        if name != body.lower():
            schema.add(name, StringType())
    return _written(texts(schema), body)


def _no_column(job: LoadJob, body: str, names: list[str]) -> JobRefused:
    return JobRefused(
        f"there is no column {body} in {', '.join(job.paths)}; there are {', '.join(names)}"
    )


def _bodies(rows: Any, job: LoadJob) -> Any:
    """Return the columns that are written. Names are quoted: a column may have a dot in its
    name."""
    body = job.body or ("value" if "value" in rows.columns else None)
    if body is None:
        fields = F.struct(*map(_column, rows.columns))
        whole = F.to_json(fields, _TIMES) if rows.columns else F.lit("")
        return rows.select(whole.alias("value"), F.lit(_JSON).alias("content_type"))
    if body not in rows.columns:
        raise _no_column(job, body, rows.columns)
    kind = rows.schema[body].dataType
    value = _column(body)
    if isinstance(kind, _NESTED):
        value = F.to_json(value, _TIMES)
    elif not isinstance(kind, BinaryType | StringType):
        value = value.cast("string")
    return _written(rows.withColumn(body, value), body)


def _written(rows: Any, body: str) -> Any:
    others = [_column(name).cast("string").alias(name) for name in _BESIDE_A_BODY
              if name in rows.columns and name != body]  # fmt: skip
    return rows.select(_column(body).alias("value"), *others)


def _column(name: str) -> Any:
    return F.col(f"`{name.replace('`', '``')}`")
