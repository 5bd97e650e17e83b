"""Which optional packages are here."""

from __future__ import annotations

import importlib.util

IS_SPARK_INSTALLED = importlib.util.find_spec("pyspark") is not None
