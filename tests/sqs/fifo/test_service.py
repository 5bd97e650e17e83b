"""What those are told who ask for a FIFO queue."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mq.errors import StoreUnavailable
from mq.names import QueueName, is_message_id
from mq_sqs.fifo.service import FifoService
from tests.support.faults import WatchedFiles
from tests.support.fifo import LINE, fifo_on, in_order
from tests.support.stores import LONG_SECONDS


def hold_back_messages(files: WatchedFiles) -> tuple[list[str], threading.Event]:
    """Let looks at messages wait. Returns the ids that were looked at, and what lets them go on."""
    asked, may_go_on = list[str](), threading.Event()

    def wait(_: int, name: str) -> None:
        if is_message_id(name):
            asked.append(name)
            may_go_on.wait(LONG_SECONDS)

    files.before["open_to_look"] = wait
    return asked, may_go_on


async def test_who_asks_for_a_queue_that_takes_long_to_read_is_told_and_others_are_served(
    root: Path,
) -> None:
    async with fifo_on(root) as line:
        await line.send_all(*((f"{number}", "a") for number in range(3)))
    files = WatchedFiles()
    async with fifo_on(root, files) as line:
        await line.store.create_queue(QueueName("orders"))
        asked, may_go_on = hold_back_messages(files)
        try:
            for _ in range(3):
                with pytest.raises(StoreUnavailable, match=f"{LINE} is being read"):
                    await line.service.require(LINE, 0.05)
            assert not line.service.has_read(LINE)
            await line.store.publish(QueueName("orders"), in_order("other", "a", "b").draft)
            [other] = await line.store.receive_many(QueueName("orders"), 1, None)
            assert other.body == b"other"
        finally:
            may_go_on.set()

        assert await line.drain() == ["0", "1", "2"]
        # The files are read once for all who asked.
        assert len(asked) == len(set(asked)) == 3


async def test_who_has_a_handle_does_not_wait_longer_either(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "b"))
        [taken] = await line.receive()
    files = WatchedFiles()
    async with fifo_on(root, files) as line:
        _, may_go_on = hold_back_messages(files)
        leases = frozenset({taken.lease})
        try:
            monkeypatch.setattr(FifoService.require, "__defaults__", (0.05,))
            for attempt in (
                lambda: line.remove(taken),
                lambda: line.service.remove_many(LINE, [taken.message_id], leases),
                lambda: line.show(taken),
            ):
                with pytest.raises(StoreUnavailable, match=f"{LINE} is being read"):
                    await attempt()
        finally:
            monkeypatch.undo()
            may_go_on.set()

        assert await line.bodies() == ["2"]
