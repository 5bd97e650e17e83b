"""docs/spark.md lists what there is; its example runs as a job."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from mq.config import CLIENT_RETRY_SECONDS
from pyspark_mq.options.addresses import LEASE_SECONDS
from pyspark_mq.options.options import (
    BATCH_READ,
    BATCH_WRITE,
    STATES,
    STREAM_READ,
    STREAM_WRITE,
    parse_options,
)
from pyspark_mq.reading.read_columns import SCHEMA
from pyspark_mq.writing.write_columns import COLUMNS
from tests.support.lone_root import Root
from tests.support.packages import JAVA_OPTIONS
from tests.support.sources import REPOSITORY, read_table

DOCUMENT = "docs/spark.md"
KINDS = {
    "all": [BATCH_READ, STREAM_READ, BATCH_WRITE, STREAM_WRITE],
    "streams and writes": [STREAM_READ, BATCH_WRITE, STREAM_WRITE],
    "reads": [BATCH_READ, STREAM_READ],
    "batch read": [BATCH_READ],
    "stream read": [STREAM_READ],
    "batch write": [BATCH_WRITE],
    "stream write": [STREAM_WRITE],
}


def test_every_option_is_listed_for_what_it_is_for() -> None:
    listed = {row[0]: KINDS[row[1]] for row in read_table(DOCUMENT, "## Options")}

    for kind in KINDS["all"]:
        assert {name for name, kinds in listed.items() if kind in kinds} == kind


def test_a_default_is_that_of_the_code() -> None:
    listed = {row[0]: row[2] for row in read_table(DOCUMENT, "## Options")}
    defaults = parse_options({"root": "/srv/mq"}, BATCH_READ)

    assert listed["states"] == ",".join(defaults.states)
    assert listed["group"] == defaults.group
    assert (listed["commit"], defaults.archives) == ("remove", False)
    assert (listed["mode"], defaults.is_failfast) == ("permissive", False)
    assert (listed["takeover"], defaults.takes_over) == ("false", False)
    assert listed["maxMessagesPerTrigger"] == f"{defaults.max_messages}"
    assert float(listed["visibilitySeconds"]) == LEASE_SECONDS
    assert float(listed["retrySeconds"]) == CLIENT_RETRY_SECONDS
    assert (listed["maxBytesPerTrigger"], defaults.max_bytes) == ("no limit", None)


def test_every_column_is_listed() -> None:
    read = {(name, kind) for name, kind, _ in read_table(DOCUMENT, "## Columns")}
    text = (REPOSITORY / DOCUMENT).read_text()

    assert read == {(field.name, field.dataType.simpleString()) for field in SCHEMA.fields}
    assert all(
        f"\n| `{name}` |" in text[text.index("Columns that you write") :] for name in COLUMNS
    )
    assert all(f"`{state}`" in text for state in STATES)


def test_the_example_runs_as_a_job(lone_root: Root, tmp_path: Path, spark: Any) -> None:
    lone_root.put("orders", b"one", b"two")
    command = (
        f'eval "$({shlex.quote(sys.executable)} -m pyspark_mq)" && exec spark-submit --master '
        "'local[1]' --conf spark.ui.enabled=false --conf spark.driver.bindAddress=127.0.0.1 "
        f"--conf spark.driver.host=127.0.0.1 --driver-java-options '{JAVA_OPTIONS}' "
        f"{REPOSITORY / 'examples/archive.py'} {lone_root.path} orders {tmp_path / 'lake'}"
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    done = subprocess.run(
        command, check=False, shell=True, capture_output=True, text=True, cwd=REPOSITORY,
        env=os.environ | {"PATH": path}, timeout=300,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-3000:]
    rows = spark.read.parquet(str(tmp_path / "lake")).collect()
    assert sorted(bytes(row.value) for row in rows) == [b"one", b"two"]
    assert {row.queue for row in rows} == {"orders"}
    assert lone_root.names("queues") == []
