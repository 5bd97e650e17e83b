"""What a gateway knows about its queues: their settings, which one of many callers reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mq.errors import QueueNotFound
from mq.names import QueueName
from mq.spool.queue.known_settings import SETTINGS_LOOK_SECONDS
from mq.spool.queue.queue_settings import QueueSettings
from mq.store.store import Store
from mq_sqs import calls
from mq_sqs.calls import Operations, check_number
from mq_sqs.faults import SQSError
from mq_sqs.operations.queues import dead_letter_sources
from mq_sqs.queues.addresses import Addressing
from tests.support.stores import ORDERS, store_on

NOWHERE = QueueName("nowhere")


class HeldReads:
    """Reads of settings, which end once `may_end` is set. `are_read` is set when one has read."""

    def __init__(self, store: Store) -> None:
        self.count = 0
        self.are_read, self.may_end = asyncio.Event(), asyncio.Event()
        self._read = store.read_settings

    async def __call__(self, queue: QueueName) -> QueueSettings:
        self.count += 1
        try:
            return await self._read(queue)
        finally:
            self.are_read.set()
            await self.may_end.wait()


@pytest.fixture
async def operations(root: Path) -> AsyncIterator[Operations]:
    async with store_on(root) as store:
        yield Operations(store, Addressing(), 30.0)


@pytest.fixture
def reads(operations: Operations, monkeypatch: pytest.MonkeyPatch) -> HeldReads:
    reads = HeldReads(operations.store)
    monkeypatch.setattr(operations.store, "read_settings", reads)
    return reads


async def begin(operations: Operations, queue: QueueName) -> list[asyncio.Task[QueueSettings]]:
    """Let ten ask. When this returns they wait for the first of them."""
    asking = [asyncio.create_task(operations.settings_of(queue)) for _ in range(10)]
    await asyncio.sleep(0)
    return asking


async def test_of_many_who_ask_at_once_one_reads(
    operations: Operations, reads: HeldReads, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(calls, "monotonic", lambda: now)
    await operations.store.change_settings(ORDERS, {"delay": "5"})

    for expected in (1, 2):
        reads.may_end.clear()
        asking = await begin(operations, ORDERS)
        reads.may_end.set()

        assert [each.delay_seconds for each in await asyncio.gather(*asking)] == [5] * 10
        assert (await operations.settings_of(ORDERS)).delay_seconds == 5
        assert reads.count == expected
        now += SETTINGS_LOOK_SECONDS


async def test_no_more_is_known_than_of_so_many_queues(
    operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_MAX_KNOWN_QUEUES", 2)
    for queue in map(QueueName, "abc"):
        await operations.store.create_queue(queue)
        await operations.settings_of(queue)

    assert list(operations._known) == ["c"]


async def test_a_reader_that_goes_away_leaves_the_reading_to_another(
    operations: Operations, reads: HeldReads
) -> None:
    first, *others = await begin(operations, ORDERS)
    first.cancel()
    reads.may_end.set()

    assert await asyncio.gather(*others) == [QueueSettings()] * 9
    assert first.cancelled()
    assert reads.count == 2


async def test_one_that_waits_and_goes_away_disturbs_nobody(
    operations: Operations, reads: HeldReads
) -> None:
    *others, last = await begin(operations, ORDERS)
    last.cancel()
    reads.may_end.set()

    assert await asyncio.gather(*others) == [QueueSettings()] * 9
    assert reads.count == 1


async def test_all_are_told_what_went_wrong_and_the_next_one_reads_again(
    operations: Operations, reads: HeldReads
) -> None:
    asking = await begin(operations, NOWHERE)
    reads.may_end.set()

    told = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(each) for each in told] == [QueueNotFound] * 10
    assert reads.count == 1
    await operations.store.create_queue(NOWHERE)
    assert await operations.settings_of(NOWHERE) == QueueSettings()


async def test_a_reading_that_a_change_overtakes_is_not_kept(
    operations: Operations, reads: HeldReads
) -> None:
    early = await begin(operations, ORDERS)
    await reads.are_read.wait()
    await operations.store.change_settings(ORDERS, {"delay": "5"})
    operations.forget(ORDERS)
    late = asyncio.create_task(operations.settings_of(ORDERS))
    await asyncio.sleep(0)
    reads.may_end.set()

    assert await asyncio.gather(*early) == [QueueSettings()] * 10
    assert (await late).delay_seconds == 5
    assert (await operations.settings_of(ORDERS)).delay_seconds == 5
    assert reads.count == 2


async def test_a_reading_that_a_change_overtakes_is_not_kept_if_nobody_reads_again(
    operations: Operations, reads: HeldReads
) -> None:
    early = await begin(operations, ORDERS)
    await reads.are_read.wait()
    await operations.store.change_settings(ORDERS, {"delay": "5"})
    operations.forget(ORDERS)
    reads.may_end.set()
    await asyncio.gather(*early)

    assert operations.known_settings_of(ORDERS) is None
    assert (await operations.settings_of(ORDERS)).delay_seconds == 5


async def test_settings_that_are_used_all_the_time_are_read_before_they_are_needed(
    operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(calls, "monotonic", lambda: now)
    await operations.settings_of(ORDERS)
    await operations.store.change_settings(ORDERS, {"delay": "5"})
    now += 0.6 * SETTINGS_LOOK_SECONDS

    # The first of these has them read, and nobody waits for it.
    assert [operations.known_settings_of(ORDERS) for _ in range(3)] == [QueueSettings()] * 3
    while operations.known_settings_of(ORDERS) == QueueSettings():
        await asyncio.sleep(0.001)
    now += 0.6 * SETTINGS_LOOK_SECONDS

    found = operations.known_settings_of(ORDERS)
    assert found is not None
    assert found.delay_seconds == 5


async def test_a_reading_beside_that_fails_disturbs_nobody(
    operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(calls, "monotonic", lambda: now)
    await operations.settings_of(ORDERS)
    await operations.store.delete_queue(ORDERS)
    now += 0.6 * SETTINGS_LOOK_SECONDS

    assert operations.known_settings_of(ORDERS) is not None
    while operations._beside:
        await asyncio.sleep(0.001)
    now += 0.6 * SETTINGS_LOOK_SECONDS

    assert operations.known_settings_of(ORDERS) is None
    with pytest.raises(QueueNotFound):
        await operations.settings_of(ORDERS)


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
