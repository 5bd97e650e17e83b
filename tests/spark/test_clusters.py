"""Tasks that run twice and executors that are killed, on a standalone cluster of two hosts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.lifecycle import Actor
from mq.spool.root import visit_root
from mq.spool.spark.transactions import sweep_transactions
from tests.spark.cluster.application import ROWS, STRAGGLER
from tests.support.lone_root import Root
from tests.support.sources import REPOSITORY
from tests.support.spark_cluster import HOSTS, Cluster, cluster_environment

pytestmark = [pytest.mark.crash_long, pytest.mark.timeout(900)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.stop()


def hosts_of_stragglers(events: Path) -> list[tuple[str, str]]:
    """For each task that Spark started a second time because it was slow, by Spark's own log: the
    hosts of its first attempt and of the second."""
    [log] = events.iterdir()
    started = [json.loads(line) for line in log.read_text().splitlines() if "TaskStart" in line]
    first = {
        (each["Stage ID"], each["Task Info"]["Index"]): each["Task Info"]["Host"]
        for each in started
        if each["Task Info"]["Attempt"] == 0
    }
    return [
        (first[each["Stage ID"], STRAGGLER], each["Task Info"]["Host"])
        for each in started
        if each["Task Info"]["Speculative"] and each["Task Info"]["Index"] == STRAGGLER
    ]


def test_tasks_that_run_twice_and_executors_that_are_killed_write_each_message_once(
    lone_root: Root, tmp_path: Path, cluster: Cluster
) -> None:
    lone_root.make("copies", "twice")
    for folder in ("marks", "events"):
        (tmp_path / folder).mkdir()
    application = REPOSITORY / "tests/spark/cluster/application.py"

    done = subprocess.run(
        [sys.executable, application, cluster.start(), lone_root.path, tmp_path],
        check=False, capture_output=True, text=True, cwd=tmp_path, timeout=800,
        env=cluster_environment(tmp_path),
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-4000:]
    assert_happened(tmp_path)
    sweep_after_two_days(lone_root.path)
    written = [path.read_bytes() for path in (lone_root.path / "queues/twice").iterdir()]
    assert sorted(written) == sorted(b"%d" % number for number in range(3 * ROWS))
    assert [lone_root.names(f"queues/{queue}") for queue in ("orders", "copies")] == [[], []]
    assert lone_root.names("spark/stage") == []


def sweep_after_two_days(root: Path) -> None:
    """A loser that sealed its set after the commit leaves it for a day."""
    spool = visit_root(root, Files(), Actor.SERVER)
    sweep_transactions(spool, time.time_ns() + 2 * 86_400 * 10**9)
    spool.close()


def assert_happened(folder: Path) -> None:
    """Both attempts had all their rows, on two hosts; executors died."""
    assert sorted(path.name for path in (folder / "marks").iterdir()) == [
        "a stream's attempt.0",
        "a stream's attempt.1",
        "an executor that reads",
        "an executor that writes",
        "the first attempt loses.0",
        "the first attempt loses.1",
        "the second attempt loses.0",
        "the second attempt loses.1",
    ]
    hosts = hosts_of_stragglers(folder / "events")
    assert len(hosts) >= 3
    assert {frozenset(pair) for pair in hosts} == {frozenset(HOSTS)}
