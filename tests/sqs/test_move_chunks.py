"""What a move task moves at a time, while others hold a message."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mq.names import QueueName
from mq.store.move import Moving
from mq_sqs.fifo.service import FifoService
from mq_sqs.move_chunks import Chunk, Chunks
from tests.support.stores import ORDERS, drain, publish, store_on

DEAD = QueueName("failed")


@pytest.mark.parametrize("is_let_go", [True, False])
async def test_a_message_that_others_held_is_looked_at_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_let_go: bool
) -> None:
    monkeypatch.setattr("mq_sqs.move_chunks.LOOK_AGAIN_SECONDS", 0.0)
    async with store_on(tmp_path) as store:
        await store.create_queue(DEAD)
        ids = [await publish(store, b"a") for _ in range(3)]
        await store.move_by_id(Moving(ORDERS, DEAD, "max-receives"), ids)
        held = os.open(tmp_path / "queues" / DEAD / ids[0], os.O_RDONLY)
        assert store._work.files.lock(held)
        chunks = Chunks(store, FifoService(store), DEAD, None)

        assert await chunks.move(10) == Chunk(2)
        if is_let_go:
            os.close(held)
        found = [await chunks.move(10) for _ in range(3)]

        if is_let_go:
            assert found == [Chunk(0), Chunk(1), Chunk(0, True)]
            assert await drain(store) == ids
        else:
            assert found == [Chunk(0), Chunk(0), Chunk(0, True)]
            os.close(held)
            assert await drain(store) == ids[1:]
