"""What a gateway knows about its queues: their settings, and where their dead letters go."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mq.errors import QueueNotFound
from mq.names import QueueName
from mq.spool.queue.known_settings import SETTINGS_LOOK_SECONDS
from mq.spool.queue.queue_settings import QueueSettings
from mq.spool.queue.settings_file import SETTINGS_FILE
from mq_sqs.calls import Operations, check_number
from mq_sqs.faults import SQSError
from mq_sqs.operations.queues import dead_letter_sources
from mq_sqs.queues.addresses import Addressing
from tests.support.stores import ORDERS, publish, store_on

NOWHERE = QueueName("nowhere")


@pytest.fixture
async def operations(root: Path) -> AsyncIterator[Operations]:
    async with store_on(root) as store:
        yield Operations(store, Addressing(), 30.0)


async def test_a_change_of_settings_counts_at_once_here(operations: Operations) -> None:
    assert await operations.settings_of(ORDERS) == QueueSettings()
    await operations.store.change_settings(ORDERS, {"delay": "5"})

    assert (await operations.settings_of(ORDERS)).delay_seconds == 5


async def test_settings_that_others_change_are_seen_within_a_second(
    operations: Operations, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert await operations.settings_of(ORDERS) == QueueSettings()
    (orders / SETTINGS_FILE).write_text("delay=5\n")
    assert operations.store.known_settings(ORDERS) == QueueSettings()
    now += 2 * SETTINGS_LOOK_SECONDS

    assert operations.store.known_settings(ORDERS) is None
    assert (await operations.settings_of(ORDERS)).delay_seconds == 5
    assert 2 * SETTINGS_LOOK_SECONDS <= 1


async def test_settings_of_a_queue_in_constant_use_are_always_known(
    operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    await operations.settings_of(ORDERS)

    for _ in range(5):
        now += 0.9 * SETTINGS_LOOK_SECONDS
        assert operations.store.known_settings(ORDERS) is not None
        await publish(operations.store, b"in use")


async def test_a_queue_that_is_not_there_has_no_settings(operations: Operations) -> None:
    with pytest.raises(QueueNotFound):
        await operations.settings_of(NOWHERE)
    await operations.store.create_queue(NOWHERE)
    assert await operations.settings_of(NOWHERE) == QueueSettings()
    await operations.store.delete_queue(NOWHERE)

    with pytest.raises(QueueNotFound):
        await operations.settings_of(NOWHERE)


async def test_the_sources_of_dead_letters_are_found_by_one_job(
    operations: Operations, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = [QueueName(f"q{number:02}") for number in range(20)]
    for queue in queues:
        (root / "queues" / queue).mkdir()
        (root / "queues" / queue / ".settings").write_text("max-receives=3\ndead-letters=dead\n")
    (root / "queues" / "not a queue").mkdir()
    jobs: list[object] = []
    submit = ThreadPoolExecutor.submit

    def count(*arguments: Any) -> Any:
        jobs.append(arguments)
        return submit(*arguments)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", count)

    assert await dead_letter_sources(operations, QueueName("dead")) == queues
    assert await dead_letter_sources(operations, QueueName("other")) == []
    assert len(jobs) < len(queues)


@pytest.mark.parametrize(
    ("name", "limits", "reason"),
    [
        ("MaxNumberOfMessages", (1, 10), "Must be between 1 and 10, if provided."),
        ("WaitTimeSeconds", (0, 20), "Must be >= 0 and <= 20, if provided."),
        ("DelaySeconds", (0, 900), "DelaySeconds must be >= 0 and <= 900."),
    ],
)
def test_a_number_outside_its_limits_is_refused_in_the_words_of_amazon(
    name: str, limits: tuple[int, int], reason: str
) -> None:
    with pytest.raises(SQSError) as refused:
        check_number(name, 901, *limits)

    assert str(refused.value) == f"Value 901 for parameter {name} is invalid. Reason: {reason}"
