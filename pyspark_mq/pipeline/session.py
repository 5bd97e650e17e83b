"""The Spark of a pipeline: the one that `spark-submit` brings, or a local one."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import pyspark_mq

SETTINGS = {
    # A command says in one line why it failed. Spark would say it in a hundred.
    "spark.log.level": "FATAL",
    # Times in --where and in bodies are in UTC, wherever the job runs.
    "spark.sql.session.timeZone": "UTC",
    # A queue named 2026 stays a text.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    # An object of JSON may have a name twice; the last one counts, as in the column `body`.
    "spark.sql.variant.allowDuplicateKeys": "true",
}
_LOCAL = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}
_QUIET = f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}"
"""Until Spark knows `spark.log.level` it writes half a dozen lines."""


def open_session(command: str) -> Any:
    """Open the session. Settings of `spark-submit` win. Raises StartRefused without a Java."""
    pyspark_mq.prepare()
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Without a connection to the JVM of `spark-submit` its settings are not in a SparkConf.
        SparkContext._ensure_initialized()
    else:
        # Of an option that is given twice the later one counts.
        os.environ["SPARK_SUBMIT_OPTS"] = f"{_QUIET} {os.environ.get('SPARK_SUBMIT_OPTS', '')}"
    given = SparkConf()
    settings = dict(SETTINGS)
    if not given.contains("spark.master"):
        settings |= _LOCAL
        # Without this Spark looks up its host's name, and warns about what it finds.
        os.environ.setdefault("SPARK_LOCAL_IP", _LOCAL["spark.driver.host"])
    settings = {name: given.get(name, value) for name, value in settings.items()}
    fresh = {name: value for name, value in settings.items() if not given.contains(name)}
    builder = SparkSession.builder.appName(f"mq-pipeline {command}").config(map=fresh)
    # They write errors of expressions to stderr, as JSON, and of connections, with a traceback.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # py4j writes some of that to the root logger itself. What others write passes it by.
    logging.getLogger().addFilter(lambda _: False)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(settings["spark.log.level"])
    return spark


def activate(spark: Any) -> None:
    """Make the session that of this thread. A write looks up its format there, and a new thread has
    no session."""
    SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
