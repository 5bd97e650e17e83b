"""load and replay as processes that are killed and interrupted, and their server with them: each
message is published once; count and checksum are the judge."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.spark.pipeline.commands import FAULTS, CommandScene, checksum
from tests.support.processes import wait_until

MESSAGES = 3000

pytestmark = [pytest.mark.crash_long, pytest.mark.timeout(900)]


def write_lines(folder: Path) -> list[bytes]:
    """Write a file to load, and return the messages that come of it."""
    lines = [f'{{"number":{number}}}' for number in range(MESSAGES)]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    return [line.encode() for line in lines]


def write_lake(folder: Path) -> list[bytes]:
    """Write the files of a lake to replay, and return the messages in it."""
    bodies = [os.urandom(40) + b"%d" % number for number in range(MESSAGES)]
    partition = folder / "lake/queue=orders/day=2026-11-22"
    partition.mkdir(parents=True)
    for first in range(0, MESSAGES, MESSAGES // 3):
        some = range(first, first + MESSAGES // 3)
        columns = {
            "id": [f"m{number}" for number in some],
            "value": bodies[some.start : some.stop],
            "content_type": ["text/plain"] * len(some),
            "published_at": pa.array(some, pa.timestamp("us", tz="UTC")),
        }
        parquet.write_table(pa.table(columns), partition / f"{first}.parquet")
    return bodies


WRITES: dict[str, tuple[Callable[[Path], list[bytes]], list[str]]] = {
    "load": (write_lines, ["load", "--to=orders", "--format=json", "rows.jsonl"]),
    "replay": (write_lake, ["replay", "--to=orders", "--lake=lake"]),
}


@pytest.mark.parametrize("kind", ["url", "root"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_is_stopped_and_run_again_publishes_each_message_once(
    write: str, fault: str, kind: str, scene: CommandScene
) -> None:
    prepare, arguments = WRITES[write]
    published = prepare(scene.folder)
    command = [*arguments, *scene.place(kind)]

    stopped = scene.start(*command)
    wait_until(lambda: scene.has_staged(kind) or stopped.has_ended(), 300)
    scene.strike(fault, stopped)
    again = scene.start(*command)
    assert again.wait() == 0, again.end_of_log()
    third = scene.start(*command)
    assert third.wait() == 0, third.end_of_log()

    said = third.log.read_text()
    assert "was done before" in said
    assert "log level" not in said, "Spark speaks only when it cannot go on"
    received: list[Any] = []
    while some := scene.site.orders.receive_many(1000, visibility=600):
        received += some
    assert len(received) == MESSAGES
    assert checksum(each.body for each in received) == checksum(published)
