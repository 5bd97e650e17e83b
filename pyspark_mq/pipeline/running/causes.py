"""Why a job failed, as a person can use it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from mq.errors import (
    CommandFailed,
    ExitCode,
    InvalidName,
    MQError,
    QueueNotFound,
    StartRefused,
)
from pyspark_mq.options.option_values import BadOption


class JobRefused(CommandFailed):
    """The job cannot be done as it was asked for. Nothing was changed."""

    def __init__(self, detail: str) -> None:
        super().__init__(ExitCode.USAGE, detail)


_LINE = re.compile(r"(?P<kind>[A-Za-z_][\w.$]*): (?P<text>.*)")
_OURS = re.compile(r"(?:mq|pyspark_mq)\.[\w.]*")
_OF_PYTHON = re.compile(r"[A-Z]\w*Error|.*\.[A-Z]\w*Exception")
_OF_SPARK = re.compile(r"(?:.*?: )?\[[A-Z][A-Z_.0-9]+\] (?P<text>.*?)(?: SQLSTATE: .*)?")
_OF_JAVA = re.compile(r".*\.[A-Z]\w*(?:Exception|Error)")
_OF_FILES = re.compile(r"Caused by: (?:java[.]n?io|org[.]apache[.]hadoop)[.][\w.$]+: (?P<text>.*)")
"""Why a file could not be written or read. Spark says only which one."""
_QUERY = re.compile(r"Query \[.*?\] terminated with exception: ")
_STATE = re.compile(r" ?SQLSTATE: \w+;?")

_REFUSED = {"BadOption", "InvalidName", "InvalidRequest", "QueueNotFound", "PropertiesTooLarge"}
"""Errors that come again however often the job is run."""


def failure_of(error: BaseException) -> CommandFailed:
    """Return what a command that met this error ends with. Spark wraps the cause in many lines."""
    kind, text = _cause(_QUERY.sub("", str(error) or type(error).__name__))
    code = ExitCode.USAGE if kind.rpartition(".")[2] in _REFUSED else ExitCode.TRY_AGAIN
    return CommandFailed(code, text)


def reason_of(error: BaseException) -> str:
    """Return the cause alone."""
    return str(failure_of(error))


def _cause(text: str) -> tuple[str, str]:
    """Return the kind and text of the error that the others were made of: the last one of MQ, or
    else of Python, of Spark, of Java. That of Spark has its file system's after it."""
    lines = [line.strip(" :") for line in text.splitlines()]
    named = [(found["kind"], found["text"]) for found in map(_LINE.fullmatch, lines) if found]
    for pattern in (_OURS, _OF_PYTHON):
        causes = [(kind, said) for kind, said in named
                  if pattern.fullmatch(kind) and not kind.startswith(_WRAPPERS)]  # fmt: skip
        if causes:
            return causes[-1]
    of_spark = [found["text"] for found in map(_OF_SPARK.fullmatch, lines) if found]
    if of_spark:
        of_files = [found["text"] for found in map(_OF_FILES.fullmatch, lines) if found]
        return "", " ".join(dict.fromkeys([of_spark[-1], *of_files[-1:]]))
    causes = [(kind, said) for kind, said in named if _OF_JAVA.fullmatch(kind)]
    kind, said = causes[-1] if causes else ("", next(filter(None, lines), ""))
    return kind, _STATE.sub("", said)


_WRAPPERS = ("org.", "java.", "scala.", "py4j.", "pyspark.", "io.", "com.")


@contextmanager
def job_errors(spark: Any | None = None) -> Iterator[None]:
    """Turn errors of a job into CommandFailed, with the cause, which Spark wraps in many lines.
    `spark` is the session of the job, once it has one."""
    try:
        yield
    except (BadOption, InvalidName, QueueNotFound) as error:
        raise CommandFailed(ExitCode.USAGE, str(error)) from None
    except (MQError, PySparkException, Py4JError, OSError) as error:
        ended = None if spark is None else how_it_ended(spark)
        if ended is not None:
            raise CommandFailed(ExitCode.TRY_AGAIN, ended) from None
        if isinstance(error, CommandFailed):
            raise
        if isinstance(error, MQError):
            raise CommandFailed(ExitCode.TRY_AGAIN, str(error)) from None
        raise failure_of(error) from None


@contextmanager
def starting() -> Iterator[None]:
    """Raise CommandFailed in place of what keeps a Spark from starting. Its JVM has said why."""
    try:
        with job_errors():
            yield
    except StartRefused:
        raise
    except CommandFailed as error:
        raise CommandFailed(ExitCode.TRY_AGAIN, f"Spark did not start: {error}") from None


_END_SECONDS = 10.0
"""How long a JVM may take to end once its Spark has stopped."""
_OUT_OF_MEMORY = 52
"""The exit code of a Spark that is out of memory (`SparkExitCode.OOM`)."""


def how_it_ended(spark: Any) -> str | None:
    """Return what ended Spark and what to do, or None if it still works. The error that a job gets
    when Spark has ended, for example a refused connection, does not say why."""
    try:
        if not spark.sparkContext._jsc.sc().isStopped():
            return None
    except (Py4JError, ConnectionError):
        pass  # Its JVM is gone.
    jvm = getattr(spark.sparkContext._gateway, "proc", None)
    try:
        code = None if jvm is None else jvm.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        code = None
    if code == _OUT_OF_MEMORY:
        return (
            "Spark ran out of memory; give it more, as SPARK_DRIVER_MEMORY=4g: it takes up to 16 "
            "times the size of the largest message"
        )
    return "Spark ended, out of memory or by a signal; SPARK_DRIVER_MEMORY=4g gives it more memory"
