"""The compose file's profile `archive`: Spark in an image of its own, from wheels alone, on a Java
from a wheel. Minutes, most of them for a gigabyte of packages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.docker import Docker
from tests.deploy.images import BASE_IMAGE, make_wheels
from tests.support.processes import wait_until

pytestmark = [pytest.mark.crash_long, pytest.mark.timeout(1800)]

URL = "http://127.0.0.1:8080"
MESSAGES = 50


@pytest.fixture
def archive(docker: Docker) -> Iterator[Docker]:
    """The stack with the archive."""
    make_wheels(docker.context / "wheels", "[spark]")
    docker.compose("--profile", "archive", "build", "--build-arg", f"PYTHON={BASE_IMAGE}",
                   "archive")  # fmt: skip
    docker.compose("--profile", "archive", "up", "--detach", "--no-build")
    docker.wait_for_server(URL)
    yield docker
    docker.compose("--profile", "archive", "down", "--volumes")


def _publish(stack: Docker, queue: str, bodies: range) -> None:
    stack.curl("-X", "PUT", f"{URL}/{queue}")
    for number in bodies:
        assert stack.curl("-d", f"{queue} {number}", f"{URL}/{queue}/messages").endswith("201")


def _files_of(lake: Path) -> set[Path]:
    """Those that Spark's log of the sink names; others are of attempts that do not count."""
    logs = (lake / "archive" / "_spark_metadata").glob("[0-9]*")
    lines = {line for log in logs for line in log.read_text().splitlines()[1:]}
    return {lake / json.loads(line)["path"].partition("/mq-lake/")[2] for line in lines}


def _read_lake(lake: Path) -> Counter[tuple[str, str]]:
    """How often each message is in it: its queue and its body."""
    parquet = pytest.importorskip("pyarrow.parquet")
    found: Counter[tuple[str, str]] = Counter()
    for file in _files_of(lake):
        queue = file.parents[1].name.partition("=")[2]
        for value in parquet.ParquetFile(file).read(columns=["value"])["value"].to_pylist():
            found[queue, value.decode()] += 1
    return found


def test_archive_has_each_message_once_over_a_kill_and_a_stop(archive: Docker) -> None:
    expected = Counter({("orders", f"orders {n}"): 1 for n in range(MESSAGES)})
    lake = archive.volume("lake")
    _publish(archive, "orders", range(MESSAGES))
    wait_until(lambda: _read_lake(lake) == expected, 600)

    killed = archive.container("archive")
    archive("kill", "--signal=KILL", killed)
    _publish(archive, "returns", range(MESSAGES))
    archive.compose("--profile", "archive", "stop")
    archive.compose("--profile", "archive", "up", "--detach", "--no-build")
    archive.wait_for_server(URL)

    expected += Counter({("returns", f"returns {n}"): 1 for n in range(MESSAGES)})
    wait_until(lambda: _read_lake(lake) == expected, 600)
    assert archive.curl(f"{URL}/returns/messages").endswith("204")
