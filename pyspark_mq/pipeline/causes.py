"""Why a job failed, as a person can use it."""

from __future__ import annotations

import re

from mq.errors import CommandFailed, ExitCode


class JobRefused(CommandFailed):
    """The job cannot be done as it was asked for. Nothing was changed."""

    def __init__(self, detail: str) -> None:
        super().__init__(ExitCode.USAGE, detail)


_LINE = re.compile(r"(?P<kind>[A-Za-z_][\w.$]*): (?P<text>.*)")
_OURS = re.compile(r"(?:mq|pyspark_mq)\.[\w.]*")
_OF_PYTHON = re.compile(r"[A-Z]\w*Error|.*\.[A-Z]\w*Exception")
_OF_SPARK = re.compile(r"(?:.*?: )?\[[A-Z][A-Z_.0-9]+\] (?P<text>.*?)(?: SQLSTATE: .*)?")
_OF_JAVA = re.compile(r".*\.[A-Z]\w*(?:Exception|Error)")
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
    else of Python, of Spark, of Java."""
    lines = [line.strip(" :") for line in text.splitlines()]
    named = [(found["kind"], found["text"]) for found in map(_LINE.fullmatch, lines) if found]
    for pattern in (_OURS, _OF_PYTHON):
        causes = [(kind, said) for kind, said in named
                  if pattern.fullmatch(kind) and not kind.startswith(_WRAPPERS)]  # fmt: skip
        if causes:
            return causes[-1]
    of_spark = [found["text"] for found in map(_OF_SPARK.fullmatch, lines) if found]
    if of_spark:
        return "", of_spark[-1]
    causes = [(kind, said) for kind, said in named if _OF_JAVA.fullmatch(kind)]
    kind, said = causes[-1] if causes else ("", next(filter(None, lines), ""))
    return kind, _STATE.sub("", said)


_WRAPPERS = ("org.", "java.", "scala.", "py4j.", "pyspark.", "io.", "com.")
