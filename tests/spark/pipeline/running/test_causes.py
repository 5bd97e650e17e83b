"""What a failed command says is the cause, not what Spark wraps around it."""

from __future__ import annotations

import errno
import subprocess
import sys
from types import SimpleNamespace

import pytest

from mq.errors import CommandFailed, ExitCode
from pyspark_mq.pipeline.running.causes import failure_of, job_errors, reason_of

OF_PYTHON = """[STREAM_FAILED] Query [id = 9] terminated with exception: Traceback:
  File "/x/driver.py", line 3, in fence
    raise self._fenced()
mq.errors.ClaimError: group archive belongs to query 7, and this is another one
 SQLSTATE: XXKST
=== Streaming Query ===
Current State: ACTIVE"""

OF_JAVA = """An error occurred while calling o41.mkdirs.
: java.io.IOException: Mkdirs failed to create file:/lake
\tat org.apache.hadoop.fs.X.y(X.java:3)"""


OF_A_TASK = """An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/x/pyspark.zip/pyspark/worker.py", line 3, in main
    raise InvalidRequest("column value: null")
mq.errors.InvalidRequest: column value: null; a message needs a body
 SQLSTATE: 38000
org.apache.spark.api.python.PythonException: Traceback: again
\tat org.apache.spark.X.y(X.scala:3)"""

OF_A_QUERY = """[STREAM_FAILED] Query [id = 9, runId = 7] terminated with exception: Python worker \
failed to connect back. SQLSTATE: XXKST
=== Streaming Query ==="""

OF_SPARK = "[PATH_NOT_FOUND] Path does not exist: file:/srv/x.csv. SQLSTATE: 42K03"


OF_A_DISK = """[STREAM_FAILED] Query [id = 9] terminated with exception: Traceback:
py4j.protocol.Py4JJavaError: An error occurred while calling o67.parquet.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows. \
SQLSTATE: 58030
\tat org.apache.spark.X.y(X.scala:3)
Caused by: org.apache.parquet.util.AutoCloseables$ParquetCloseResourceException: Unable to close
\t... 3 more
Caused by: org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device
\t... 3 more
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (OF_A_DISK, "Task failed while writing rows. No space left on device"),
        (OF_PYTHON, "group archive belongs to query 7, and this is another one"),
        (OF_JAVA, "Mkdirs failed to create file:/lake"),
        (OF_A_TASK, "column value: null; a message needs a body"),
        (OF_A_QUERY, "Python worker failed to connect back."),
        (OF_SPARK, "Path does not exist: file:/srv/x.csv."),
        ("it just failed\nhere", "it just failed"),
        ("", "RuntimeError"),
    ],
)
def test_the_cause_is_found_in_what_spark_wraps_around_it(text: str, reason: str) -> None:
    assert reason_of(RuntimeError(text)) == reason


@pytest.mark.parametrize(
    ("text", "code"), [(OF_PYTHON, ExitCode.TRY_AGAIN), (OF_A_TASK, ExitCode.USAGE)]
)
def test_what_comes_again_however_often_a_job_is_run_is_no_reason_to_run_it_again(
    text: str, code: ExitCode
) -> None:
    assert failure_of(RuntimeError(text)).exit_code is code


class StoppedSpark:
    """A session whose JVM ends with an exit code."""

    def __init__(self, code: int) -> None:
        jvm = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"])
        self.sparkContext = self._jsc = self
        self._gateway = SimpleNamespace(proc=jvm)

    def sc(self) -> None:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


@pytest.mark.parametrize(("code", "text"), [(52, "ran out of memory; give it more"), (1, "ended")])
def test_a_spark_that_ended_is_why_its_job_failed(code: int, text: str) -> None:
    for met in (ConnectionRefusedError(), CommandFailed(ExitCode.USAGE, "dagScheduler() is null")):
        with (
            pytest.raises(CommandFailed, match=f"Spark {text}.*SPARK_DRIVER_MEMORY=4g") as found,
            job_errors(StoppedSpark(code)),
        ):
            raise met
        assert found.value.exit_code is ExitCode.TRY_AGAIN


def test_what_the_files_of_a_lake_refuse_is_reported_as_it_is() -> None:
    with (
        pytest.raises(CommandFailed, match=r"^/lake/a.parquet was not removed$") as found,
        job_errors(),
    ):
        raise OSError("/lake/a.parquet was not removed")

    assert found.value.exit_code is ExitCode.TRY_AGAIN
