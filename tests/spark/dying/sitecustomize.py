"""Lets an application die at a named step: Python imports this module when it starts, if its folder
is on PYTHONPATH, in the driver and in every worker. Without MQ_DIE_AT it kills nothing.

The process that comes to the step leaves a mark, and kills everything of its session with SIGKILL:
driver, JVM, workers, itself. With MQ_SLEEPS they are stopped, and go on when a test wakes them.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


class Step(NamedTuple):
    """Before or after the n-th call of a function; `counts` says which calls are meant."""

    module: str
    function: str
    when: str
    nth: int = 1
    counts: Callable[..., bool] = lambda *_: True


_FILES = "mq.disk.files"


def _delivers(_files: object, _fd: int, source: str, _target_fd: int, target: str) -> bool:
    return source.startswith("stage/") and source.rpartition(":")[2] == target


def _stages(_files: object, _fd: int, _folder_fd: int, name: str) -> bool:
    return name.startswith("stage/")


def _fetched(_files: object, _fd: int, _folder_fd: int, name: str) -> bool:
    return name.startswith("orders:")


def _taken_over(_files: object, _fd: int, source: str, _target_fd: int, target: str) -> bool:
    return source == f"orders:{target}"


LARGE_CLAIM = "in the middle of a large claim"
"""One that several processes share."""

SOURCE = {
    "in the middle of a claim": Step("mq.spool.spark.claiming", "Claim.take", "after", 3),
    "before the seal": Step("mq.spool.spark.claiming", "Claim.seal", "before"),
    "after the seal, before the offset log": Step("mq.spool.spark.claiming", "Claim.seal", "after"),
    "after the offset log": Step("pyspark_mq.reading.driver", "Driver.parts_between", "before"),
    "during the read": Step("pyspark_mq.reading.stream_read", "read_row", "after", 2),
    "between two batches": Step("pyspark_mq.reading.driver", "Driver.next_batch", "before", 2),
    "between floor and removal": Step("mq.spool.spark.letting_go", "put_away", "before"),
    "after the removal": Step("mq.spool.spark.letting_go", "put_away", "after"),
    "before commit": Step("pyspark_mq.reading.stream_read", "StreamReader.commit", "before"),
    "after commit": Step("pyspark_mq.reading.stream_read", "StreamReader.commit", "after"),
    LARGE_CLAIM: Step("mq.spool.spark.claiming", "Claim.take_many", "after", 3),
}

SINK = {
    "while a task stages": Step(_FILES, "Files.link", "after", 2, _stages),
    "before an attempt is sealed": Step("mq.spool.spark.staging", "Attempt.seal", "before"),
    "after an attempt is sealed": Step("mq.spool.spark.staging", "Attempt.seal", "after"),
    "before the transaction": Step("pyspark_mq.writing.write", "commit", "before"),
    "after the transaction": Step("mq.spool.spark.transactions", "finish", "before"),
    "while it is rolled forward": Step(_FILES, "Files.rename", "after", 2, _delivers),
    "after it is rolled forward": Step("mq.spool.spark.transactions", "forget_before", "before"),
    "before the commit log": Step("pyspark_mq.writing.write", "commit", "after"),
}

_INTAKE, _FORWARD = "pyspark_mq.by_url.intake", "pyspark_mq.by_url.forward"

SOURCE_BY_URL = {
    "after a fetch, before the staging": Step(_INTAKE, "Intake.stage", "before"),
    "in the middle of the staging": Step(_FILES, "Files.link", "after", 2, _fetched),
    "after the staging, before the removal": Step(_INTAKE, "Intake.stage", "after"),
    "after the removal": Step(_INTAKE, "Intake.decide", "before"),
    "while what was removed is taken": Step(_FILES, "Files.rename", "after", 2, _taken_over),
    "between a fetch and its claim": Step(_INTAKE, "Intake.fetch", "after"),
}

SINK_BY_URL = {
    "before a batch is published": Step(_FORWARD, "Forwarder._publish", "before"),
    "after a batch is published": Step(_FORWARD, "Forwarder.put_away", "before"),
    "after a batch has left the staging": Step(_FORWARD, "Forwarder.put_away", "after"),
}


def end_session(mark: str) -> None:
    """Everything that the test started, JVM and workers too, whatever process group it is in."""
    sleeps = bool(os.environ.get("MQ_SLEEPS"))
    try:
        Path(mark).touch(exist_ok=not sleeps)
    except FileExistsError:
        # It has slept, and goes on; another process of it comes to the step too.
        return
    others = [pid for pid in processes_of(os.getsid(0)) if pid != os.getpid()]
    # Stopped first: none may see that another is gone.
    blows = [signal.SIGSTOP] if sleeps else [signal.SIGSTOP, signal.SIGKILL]
    for blow in blows:
        for pid in others:
            os.kill(pid, blow)
    os.kill(os.getpid(), blows[-1])


def processes_of(session: int) -> list[int]:
    """Those that run; zombies do not."""
    return list(states_of(session))


def states_of(session: int) -> dict[int, str]:
    """Return the letter that proc(5) has for the state of each running process."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, its_session, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if int(its_session) == session and state not in "ZX":
            found[int(entry.name)] = state
    return found


def _dies(call: Callable[..., Any], step: Step, mark: str) -> Callable[..., Any]:
    calls = 0

    def dying(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += step.counts(*arguments)
        is_there = calls == step.nth and step.counts(*arguments)
        if is_there and step.when == "before":
            end_session(mark)
        result = call(*arguments, **named)
        if is_there:
            end_session(mark)
        return result

    return dying


class _Patcher(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Puts the dying function into its module when that is imported."""

    def __init__(self, step: Step, mark: str) -> None:
        self._step = step
        self._mark = mark
        self._spec: importlib.machinery.ModuleSpec | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._step.module:
            return None
        self._spec = importlib.machinery.PathFinder.find_spec(name, path)
        return importlib.machinery.ModuleSpec(name, self, origin=__file__)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        assert self._spec is not None
        assert self._spec.loader is not None
        self._spec.loader.exec_module(module)
        *owners, name = self._step.function.split(".")
        owner: Any = module
        for each in owners:
            owner = getattr(owner, each)
        setattr(owner, name, _dies(getattr(owner, name), self._step, self._mark))


# Every worker would compile PySpark again from there. It is installed, too.
sys.path[:] = [each for each in sys.path if not each.endswith("/pyspark.zip")]

if os.environ.get("MQ_DIE_AT"):
    _steps = SOURCE | SINK | SOURCE_BY_URL | SINK_BY_URL
    _step = _steps[os.environ["MQ_DIE_AT"]]
    if _step.module == _FILES:
        os.environ["MQ_NATIVE"] = "off"  # else it makes that call itself
    sys.meta_path.insert(0, _Patcher(_step, os.environ["MQ_DIE_MARK"]))
