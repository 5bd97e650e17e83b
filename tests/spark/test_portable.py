"""Readers and writers come to an executor whole, or say what it lacks."""

from __future__ import annotations

import base64
import subprocess
import sys

import pytest
from pyspark import cloudpickle

from pyspark_mq.options.options import (
    BATCH_READ,
    BATCH_WRITE,
    STREAM_READ,
    STREAM_WRITE,
    parse_options,
)
from pyspark_mq.reading.batch_read import BatchReader
from pyspark_mq.reading.stream_read import StreamReader
from pyspark_mq.writing.write import BatchWriter, StreamWriter

ROOT = {"root": "/srv/mq", "queue": "orders"}
UNPACKS = """
import base64, pickle, sys
if sys.argv[2]:
    sys.modules[sys.argv[2]] = None
print(type(pickle.loads(base64.b64decode(sys.argv[1]))).__name__)
"""


def sent(made: object) -> str:
    """What Spark sends: a function with the object inside."""
    data: bytes = cloudpickle.dumps(made)
    return base64.b64encode(data).decode()


def unpack(data: str, missing: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", UNPACKS, data, missing], check=False, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        (BatchReader, BATCH_READ),
        (StreamReader, STREAM_READ),
        (BatchWriter, BATCH_WRITE),
        (StreamWriter, STREAM_WRITE),
    ],
)
def test_it_is_the_same_object_elsewhere(kind: type, allowed: frozenset[str]) -> None:
    made = kind(parse_options(ROOT, allowed))

    came = cloudpickle.loads(cloudpickle.dumps(made))

    assert type(came) is kind
    assert vars(came) == vars(made)


def test_another_process_unpacks_it_by_what_is_installed_there() -> None:
    made = BatchReader(parse_options(ROOT, BATCH_READ))

    assert unpack(sent(made)).stdout == "BatchReader\n"


@pytest.mark.parametrize("missing", ["pyspark_mq", "pyarrow", "mq"])
def test_an_executor_that_lacks_a_package_says_which_and_what_to_do(missing: str) -> None:
    made = BatchReader(parse_options(ROOT, BATCH_READ))

    said = unpack(sent(made), missing).stderr.splitlines()[-1]

    assert said.startswith(f"ModuleNotFoundError: the executor's Python, {sys.executable} on ")
    assert f"lacks {missing}: run pip install 'mq-server[spark]'" in said
