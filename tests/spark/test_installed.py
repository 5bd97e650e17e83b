"""Says why nothing else of this folder ran, if so."""

from __future__ import annotations

import tomllib
from importlib.metadata import version

import pytest
from packaging.requirements import Requirement

from tests.support.packages import IS_SPARK_INSTALLED
from tests.support.sources import REPOSITORY

REASON = "pyspark is missing: pip install 'mq-server[spark]'"


@pytest.mark.skipif(not IS_SPARK_INSTALLED, reason=REASON)
def test_spark_is_one_that_the_package_allows() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    allowed = [Requirement(line) for line in project["optional-dependencies"]["spark"]]
    [pyspark] = [each for each in allowed if each.name == "pyspark"]

    assert version("pyspark") in pyspark.specifier
