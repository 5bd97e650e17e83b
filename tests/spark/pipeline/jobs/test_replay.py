"""A replay of a lake that has an id, or a message, twice, and requests that cannot be meant."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pyspark_mq.pipeline.jobs import replay as replay_module
from pyspark_mq.pipeline.jobs.archive import ArchiveJob, archive
from pyspark_mq.pipeline.jobs.publishing import publish_once
from pyspark_mq.pipeline.jobs.replay import ReplayJob, replay
from pyspark_mq.pipeline.lake import lake as lake_module
from pyspark_mq.pipeline.lake.lake import Lake
from pyspark_mq.pipeline.places import QueuePlace
from pyspark_mq.pipeline.running.causes import JobRefused, failure_of
from pyspark_mq.pipeline.running.progress import ProgressLine
from tests.support.lone_root import Root
from tests.support.messages import seal_of, write_message

DAY_NS = 1_792_555_200 * 10**9

Replay = Callable[..., int]


@pytest.fixture
def replay_of(spark: Any, lone_root: Root, tmp_path: Path) -> Replay:
    """`replay_of((body, published_ns), ...)` archives messages one after the other under one id,
    then publishes the lake to `again`."""
    place, line = QueuePlace(root=str(lone_root.path)), ProgressLine("job", StringIO())
    lake = str(tmp_path / "lake")
    lone_root.make("orders", "again")

    def replay_them(*messages: tuple[bytes, int], **asked: Any) -> int:
        for body, published_ns in messages:
            path = lone_root.path / "queues/orders/daily"
            write_message(path, body, seal=seal_of(body, published_ns=published_ns))
            job = ArchiveJob("orders", lake, "archive", True, 1.0, 1000)
            assert archive(spark, place, job, line, Event()) == 1
        return replay(spark, place, ReplayJob(lake, "again", **asked), line)

    return replay_them


def bodies(root: Root) -> list[bytes]:
    return sorted(path.read_bytes() for path in (root.path / "queues/again").iterdir())


def test_messages_that_had_one_id_one_after_the_other_are_all_published(
    replay_of: Replay, lone_root: Root
) -> None:
    first, second = (b"Monday", DAY_NS), (b"Tuesday", DAY_NS + 1000)

    assert replay_of(first, second) == 2

    assert bodies(lone_root) == [b"Monday", b"Tuesday"]


@pytest.mark.parametrize("keeps_ids", [False, True])
def test_a_message_that_the_lake_has_twice_is_published_once(
    replay_of: Replay, lone_root: Root, keeps_ids: bool
) -> None:
    message = (b"Monday", DAY_NS)

    assert replay_of(message, message, keeps_ids=keeps_ids) == 1

    assert bodies(lone_root) == [b"Monday"]


def test_a_replay_goes_on_beside_an_archive_that_would_merge_what_it_reads(
    spark: Any,
    replay_of: Replay,
    lone_root: Root,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    merged: list[int] = []

    def merge_first(*given: Any, **named: Any) -> int:
        with monkeypatch.context() as patch:
            patch.setattr(lake_module, "MOST_SMALL_FILES", 1)
            merged.append(Lake(spark, str(tmp_path / "lake")).compact())
        return publish_once(*given, **named)

    monkeypatch.setattr(replay_module, "publish_once", merge_first)

    assert replay_of((b"Monday", DAY_NS), (b"Tuesday", DAY_NS + 1000)) == 2

    assert bodies(lone_root) == [b"Monday", b"Tuesday"]
    assert merged == [0]


def test_two_messages_cannot_keep_one_id(replay_of: Replay, lone_root: Root) -> None:
    with pytest.raises(Exception, match="have the id daily; each needs its own") as found:
        replay_of((b"Monday", DAY_NS), (b"Tuesday", DAY_NS + 1000), keeps_ids=True)

    assert failure_of(found.value).exit_code == 2
    assert bodies(lone_root) == []


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"queues": ("orders,returns",)}, "--queue 'orders,returns' .*repeat --queue for each"),
        ({"queues": ("orders", "ret*")}, r"--queue 'ret\*' is not the name of a queue"),
        ({"since": "2026-11-02", "until": "2026-11-01"}, "--since '2026-11-02' is not before"),
        ({"where": "1 / (length - 3) > 0"}, "--where '1 / .*Division by zero"),
        ({"where": "cast(cast(value as string) as int) > 0"}, "--where 'cast.*cannot be cast"),
    ],
)
def test_a_request_that_no_message_can_answer_is_refused(
    replay_of: Replay, lone_root: Root, asked: dict[str, Any], why: str
) -> None:
    with pytest.raises(JobRefused, match=why):
        replay_of((b"one", DAY_NS), **asked)

    assert bodies(lone_root) == []
