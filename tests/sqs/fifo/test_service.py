"""What those are told who ask for a FIFO queue."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from mq.errors import StoreUnavailable
from mq.names import QueueName, is_message_id
from mq.spool.queue.settings_file import MAX_SETTINGS_BYTES
from mq_sqs.calls import Operations
from mq_sqs.fifo.fifo_queue import PURGED_NOTE
from mq_sqs.fifo.service import FifoService
from mq_sqs.messages.handles import make_handle
from mq_sqs.queues.addresses import Addressing
from tests.support.faults import WatchedFiles
from tests.support.fifo import DEAD_LINE, LINE, FifoLine, bury, fifo_on, in_order
from tests.support.gateways import run
from tests.support.messages import SECOND_NS, names_in
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
        operations = Operations(line.store, Addressing(), 30.0)
        line.service = operations.fifo
        _, may_go_on = hold_back_messages(files)
        handle = make_handle(LINE, taken.message_id, taken.lease)
        entries = [{"Id": "a", "ReceiptHandle": handle}]
        try:
            monkeypatch.setattr(FifoService.require, "__defaults__", (0.05,))
            for attempt in (
                lambda: run(operations, "DeleteMessage", QueueUrl=LINE, ReceiptHandle=handle),
                lambda: run(operations, "DeleteMessageBatch", QueueUrl=LINE, Entries=entries),
                lambda: line.show(taken),
            ):
                with pytest.raises(StoreUnavailable, match=f"{LINE} is being read"):
                    await attempt()
        finally:
            monkeypatch.undo()
            may_go_on.set()

        assert await line.bodies() == ["2"]


async def test_who_asks_after_a_change_of_the_scope_does_not_wait_longer_either(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = WatchedFiles()
    async with fifo_on(root, files) as line:
        operations = Operations(line.store, Addressing(), 30.0)
        line.service = operations.fifo
        await line.send_all(("1", "a"), ("2", "b"))
        _, may_go_on = hold_back_messages(files)
        try:
            changes = {"DeduplicationScope": "messageGroup"}
            await run(operations, "SetQueueAttributes", QueueUrl=LINE, Attributes=changes)
            monkeypatch.setattr(FifoService.require, "__defaults__", (0.05,))
            with pytest.raises(StoreUnavailable, match=f"{LINE} is being read"):
                await line.receive()
        finally:
            monkeypatch.undo()
            may_go_on.set()

        assert await line.drain() == ["1", "2"]


async def test_after_a_purge_all_may_be_sent_again(root: Path) -> None:
    """What was removed before the purge is forgotten too, and stays so after a restart."""
    async with fifo_on(root) as line:
        texts = ("removed", "waiting")
        first = [(await line.send(text)).message_id for text in texts]
        [taken] = await line.receive(1)
        await line.remove(taken)

        await line.service.purge(LINE)
        again = [(await line.send(text)).message_id for text in texts]

        assert not {*first} & {*again}
        assert [(await line.send(text)).message_id for text in texts] == again
        assert await line.drain() == ["removed", "waiting"]
    async with fifo_on(root) as line:
        assert [(await line.send(text)).message_id for text in texts] == again


async def test_after_a_purge_all_may_be_sent_again_though_the_clock_was_set_back(
    root: Path,
) -> None:
    async with fifo_on(root) as line:
        first = (await line.send("1")).message_id
        _set_back(line)

        await line.service.purge(LINE)
        again = (await line.send("1")).message_id

        assert again != first
        assert (await line.send("1")).message_id == again
    async with fifo_on(root) as line:
        _set_back(line)
        assert (await line.send("1")).message_id == again


async def test_a_purge_that_outlasts_a_later_one_makes_nothing_known_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fifo_on(root) as line:
        purge = line.store.purge
        is_begun, may_end = asyncio.Event(), asyncio.Event()

        async def purge_slowly(queue: QueueName) -> int:
            monkeypatch.undo()
            is_begun.set()
            await may_end.wait()
            return await purge(queue)

        monkeypatch.setattr(line.store, "purge", purge_slowly)
        purges = [asyncio.create_task(line.service.purge(LINE))]
        await is_begun.wait()
        first = (await line.send("1")).message_id
        purges.append(asyncio.create_task(line.service.purge(LINE)))
        await asyncio.wait(purges, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
        may_end.set()
        await asyncio.gather(*purges)

        assert (await line.send("1")).message_id != first
        assert await line.drain() == ["1"]


async def test_a_queue_that_is_made_again_forgets_dead_letters_though_the_clock_was_set_back(
    root: Path,
) -> None:
    async with fifo_on(root) as line:
        await bury(line, root, "1")
        _set_back(line)

        await line.store.delete_queue(LINE)
        await line.store.create_queue(LINE, await line.service.forgetting())

        assert not (await line.send("1")).is_duplicate


async def test_a_dead_letter_stays_known_though_the_clock_was_set_back_after_its_queue_was_made(
    root: Path,
) -> None:
    async with fifo_on(root) as line:
        await line.store.create_queue(DEAD_LINE)
        await line.store.delete_queue(LINE)
        work, hour_ns = line.store._work, 3_600 * SECOND_NS
        work.clock_ns = work.ids._clock_ns = lambda: time.time_ns() + hour_ns
        dying = {"max-receives": "1", "dead-letters": DEAD_LINE}
        await line.store.create_queue(LINE, await line.service.forgetting() | dying)
        work.clock_ns = work.ids._clock_ns = time.time_ns
        first = await line.send("1")
        await line.show((await line.receive())[0])
        assert names_in(root / "queues" / DEAD_LINE) == [first.message_id]
    async with fifo_on(root) as line:
        assert (await line.send("1")).message_id == first.message_id


async def test_a_dead_letter_stays_known_though_the_clock_was_set_back_after_a_purge(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the queue is read again, the clock has passed the time of the purge once more."""
    async with fifo_on(root) as line:
        work = line.store._work
        work.clock_ns = work.ids._clock_ns = lambda: time.time_ns() + 30 * SECOND_NS
        await line.service.purge(LINE)
        work.clock_ns = work.ids._clock_ns = time.time_ns
        await bury(line, root, "1")

    def later(_clock: object = None) -> int:
        return time.time_ns() + 40 * SECOND_NS

    async with fifo_on(root) as line:
        work = line.store._work
        work.clock_ns = work.ids._clock_ns = later
        monkeypatch.setattr(time, "clock_gettime_ns", later)

        assert (await line.send("1")).is_duplicate


def _set_back(line: FifoLine) -> None:
    work = line.store._work
    work.clock_ns = work.ids._clock_ns = lambda: time.time_ns() - 3_600 * SECOND_NS


@pytest.mark.parametrize("note", ["9" * 19, "soon", "-1"])
async def test_a_time_of_a_purge_that_cannot_be_makes_nothing_forgotten(
    root: Path, note: str
) -> None:
    """The clock was set back, or a person has edited the file."""
    async with fifo_on(root) as line:
        first = (await line.send("1")).message_id
        assert await line.drain() == ["1"]
        await line.store.change_settings(LINE, {PURGED_NOTE: note})

        assert (await line.send("1")).message_id == first


async def test_a_purge_is_done_though_the_settings_have_no_room(root: Path) -> None:
    async with fifo_on(root) as line:
        full = {f"sqs.full{number}": "x" * 3980 for number in range(MAX_SETTINGS_BYTES // 4000)}
        await line.store.change_settings(LINE, full | {"sqs.rest": "x" * 1650})
        await line.send("1")

        await line.service.purge(LINE)

        assert await line.drain() == []
        assert PURGED_NOTE not in (await line.store.read_settings(LINE)).notes
