"""While a FIFO queue with many messages is read, and looked through, others are served."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from mq.names import file_name
from mq_sqs.fifo import loading, using
from mq_sqs.fifo.fifo_queue import FifoQueue
from mq_sqs.fifo.in_flight import look_for_removed
from tests.support.fifo import LINE, fifo_on

MESSAGES = 50


@pytest.mark.parametrize("method", ["learn_hidden", "learn_sent"])
async def test_others_have_their_turns_while_what_was_read_is_taken_in(
    root: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async with fifo_on(root) as line:
        await line.send_all(*((str(number), "a") for number in range(MESSAGES)))
        received = await line.receive(MESSAGES)
        if method == "learn_sent":
            for each in received:
                await line.remove(each)
    learned: list[object] = []
    learn = getattr(FifoQueue, method)

    def watch(state: FifoQueue, found: object, now_ns: int) -> None:
        learned.append(found)
        learn(state, found, now_ns)

    monkeypatch.setattr(FifoQueue, method, watch)
    monkeypatch.setattr(using, "_READ_AT_ONCE", 1)

    async with fifo_on(root) as line:
        reading = asyncio.create_task(line.service.require(LINE))
        seen: set[int] = set()
        while not reading.done():
            await line.store.call(lambda work: seen.add(len(learned)))

    assert len(learned) == MESSAGES
    assert seen - {0, MESSAGES}


async def test_the_committer_does_not_look_for_each_message_in_flight(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"))
        [first] = await line.receive()
        (root / "delay" / f"{LINE}:{first.message_id}").unlink()
        committer = await line.store.call(lambda work: threading.get_ident())
        lookers: set[int] = set()

        def watch(*names: Any) -> str:
            lookers.add(threading.get_ident())
            return file_name(*names)

        monkeypatch.setattr(loading, "file_name", watch)
        await line.store.run(lambda work: look_for_removed(work, line.service._queues))

        assert lookers
        assert committer not in lookers
        assert await line.bodies() == ["2"]
