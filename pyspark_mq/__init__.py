"""Queues as sources and sinks of Spark: a Python data source by the name of `mq`.

    spark.read.format("mq").option("root", "/srv/mq").option("queue", "orders").load()

    source        what Spark asks first, with the `options` that were given; `job_root`: where
                  they lead
    reading       batches, which take nothing, and streams, which claim
    writing       batches and streams, which are committed once
    by_url        to servers and back, by a staging
    pipeline      whole jobs as commands, to a lake and back
    environment   a Java and a Python for Spark; `portable`: what executors lack

Spark finds it by itself: it imports every module whose name begins with `pyspark_` and takes the
`DefaultSource` in it. docs/spark.md says what there is. PySpark is loaded when a name of this
package is first asked for. The files that claims and transactions consist of belong in
`mq.spool.spark`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark_mq.environment import prepare, register
    from pyspark_mq.source import MqDataSource as DefaultSource

__all__ = ["DefaultSource", "prepare", "register"]

_WHERE = {
    "DefaultSource": ("source", "MqDataSource"),
    "prepare": ("environment", "prepare"),
    "register": ("environment", "register"),
}


def __getattr__(name: str) -> object:
    """Load a name when it is first asked for (PEP 562). Raises ImportError, which says what to
    install, if something is missing or too old."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _WHERE[name]
    try:
        found: object = getattr(import_module(f"pyspark_mq.{module}"), attribute)
    except ImportError as error:
        raise ImportError(why_not_importable(error)) from error
    return found


def why_not_importable(error: ImportError) -> str:
    """Return what is missing around this package, and what to do."""
    hint = "pip install 'mq-server[spark]'"
    package = (error.name or "").partition(".")[0]
    if package == "pyspark" and error.name != "pyspark":
        return f"this PySpark is too old for mq, which needs 4.2 or newer ({error}): {hint}"
    if package in ("pyspark", "pyarrow", "pandas"):
        return f"mq needs {package}, which is not installed for {sys.executable}: {hint}"
    return str(error)
