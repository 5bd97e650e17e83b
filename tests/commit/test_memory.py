"""In memory requests that come one after the other share a round."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from mq.commit.memory import MemoryCommitter


@pytest.fixture
def workers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as some:
        yield some


class _Traffic:
    """Requests that come to a committer, and how many of them each round took."""

    def __init__(self, workers: ThreadPoolExecutor) -> None:
        self.rounds: list[int] = []
        self.committer = MemoryCommitter(lambda: None, lambda: None, workers)
        self._here = 0

    async def come(self, count: int) -> None:
        """Let some come, and the event loop have a turn."""
        for _ in range(count):
            self._here += 1
            self.committer.submit_later(self._take)
        await asyncio.sleep(0)

    def _take(self) -> None:
        self.rounds.append(self._here)
        self._here = 0


async def test_one_or_two_requests_are_taken_at_once(workers: ThreadPoolExecutor) -> None:
    traffic = _Traffic(workers)
    await traffic.come(1)
    await traffic.come(2)

    assert traffic.rounds == [1, 2]


async def test_as_long_as_more_come_they_share_a_round(workers: ThreadPoolExecutor) -> None:
    traffic = _Traffic(workers)
    for _ in range(5):
        await traffic.come(3)
        assert traffic.rounds == []
    await traffic.come(0)
    assert traffic.rounds == [15]

    await traffic.come(1)
    assert traffic.rounds == [15, 1]


async def test_a_round_that_is_full_begins_though_more_come(workers: ThreadPoolExecutor) -> None:
    traffic = _Traffic(workers)
    await traffic.come(500)
    assert traffic.rounds == []

    await traffic.come(100)
    await traffic.come(1)
    assert traffic.rounds == [600, 1]


async def test_at_the_end_those_that_gather_are_taken(workers: ThreadPoolExecutor) -> None:
    traffic = _Traffic(workers)
    await traffic.come(3)

    await traffic.committer.close()
    assert traffic.rounds == [3]
    await traffic.come(0)
    assert traffic.rounds == [3]
