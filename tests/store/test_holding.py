"""Queues are held for the file calls that follow, once no purge has one of them to itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mq.commit.operation import Operation, Pause
from mq.errors import QueueNotFound, StoreUnavailable
from mq.names import QueueName
from mq.store import patience
from mq.store.holding import hold_all
from mq.store.shared_state import Workspace
from tests.support.stores import ORDERS, store_on

TEAS, CAKES = QueueName("teas"), QueueName("cakes")
QUEUES = (ORDERS, TEAS, CAKES)


def _held(work: Workspace) -> list[bool]:
    return [work.spool.queues.is_held(each) for each in QUEUES]


def _go_on(work: Workspace, holding: Iterator[object]) -> object:
    """Run an operation up to its next `yield`, after which nothing is held any more."""
    work.begin_round()
    try:
        return next(holding, None)
    finally:
        work.end_calls()


async def test_all_are_held_at_the_end_whichever_was_locked(tmp_path: Path) -> None:
    async with store_on(tmp_path) as store:
        work = store._work
        for each in (TEAS, CAKES):
            await store.create_queue(each)
        for locked in QUEUES:
            lock = work.spool.queues.lock_alone(locked, 0.0)
            holding: Operation[None] = hold_all(work, QUEUES)

            assert isinstance(_go_on(work, holding), Pause)
            os.close(lock)

            work.begin_round()
            with suppress(StopIteration):
                pytest.fail(f"it waits for {next(holding)}")
            assert _held(work) == [True] * 3
            work.end_calls()
            assert _held(work) == [False] * 3


async def test_the_queue_that_stays_locked_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PURGE_LOCK_SECONDS", 0.0)
    async with store_on(tmp_path) as store:
        work = store._work
        for each in (TEAS, CAKES):
            await store.create_queue(each)
        lock = work.spool.queues.lock_alone(TEAS, 0.0)
        holding: Operation[None] = hold_all(work, QUEUES)

        with pytest.raises(StoreUnavailable, match="queue teas cannot be used"):
            list(iter(lambda: _go_on(work, holding), None))

        os.close(lock)


async def test_the_queue_that_is_missing_is_named(tmp_path: Path) -> None:
    async with store_on(tmp_path) as store:
        await store.create_queue(TEAS)

        with pytest.raises(QueueNotFound, match="no queue cakes"):
            _go_on(store._work, hold_all(store._work, QUEUES))
