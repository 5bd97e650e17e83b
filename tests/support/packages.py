"""Which optional packages are here, and how Spark's Java is started."""

from __future__ import annotations

import importlib.util

IS_SPARK_INSTALLED = importlib.util.find_spec("pyspark") is not None

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that lives for seconds or minutes: the second compiler takes longer than it saves."""
