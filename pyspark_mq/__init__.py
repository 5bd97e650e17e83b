"""Queues as sources and sinks of Spark: a Python data source by the name of `mq`.

    spark.read.format("mq").option("root", "/srv/mq").option("queue", "orders").load()

Spark finds it by itself: it imports every module whose name begins with `pyspark_` and takes the
`DefaultSource` in it. docs/spark.md says what there is.
"""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from pyspark_mq.environment import prepare, why_not_found
from pyspark_mq.source import MqDataSource

__all__ = ["DefaultSource", "prepare", "register"]

DefaultSource = MqDataSource


def register(spark: SparkSession) -> None:
    """Register the source `mq` by hand, where Spark did not find it by itself.

    Raises RuntimeError if the Python that Spark runs lacks this package; the text says what to set.
    """
    why = why_not_found(os.environ)
    if why is not None:
        raise RuntimeError(why)
    spark.dataSource.register(MqDataSource)
