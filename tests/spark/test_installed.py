"""Says why nothing else of this folder ran, if so."""

from __future__ import annotations

import pytest

from tests.spark.conftest import IS_INSTALLED


@pytest.mark.skipif(not IS_INSTALLED, reason="pyspark is missing: pip install 'mq-server[spark]'")
def test_spark_is_installed_so_its_tests_run() -> None:
    assert IS_INSTALLED
