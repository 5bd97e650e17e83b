"""What others do to messages that are in flight."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from pathlib import Path

import pytest

from mq.errors import StoreUnavailable
from mq.names import QueueName
from mq.store.receiving.received_message import Received
from mq_sqs.fifo.in_flight import look_for_overdue
from tests.support.faults import WatchedFiles
from tests.support.fifo import DEAD_LINE, LINE, FifoLine, bodies_of, fifo_on
from tests.support.messages import names_in
from tests.support.redelivery import move_due


async def until(line: FifoLine, body: str) -> None:
    """It can be received, sooner or later."""
    while bodies_of(await line.receive()) != [body]:
        await asyncio.sleep(0.01)


def look_for(line: FifoLine, received: Received) -> None:
    """Let the gateway take its lease for over."""
    state = line.service._queues.get(LINE)
    assert state is not None
    state.expect(received.message_id, 0)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway looks for what others have done as often as it can."""
    for name, seconds in (("_LOOK_SECONDS", 0.01), ("SWEEP_SECONDS", 0.01)):
        monkeypatch.setattr(f"mq_sqs.fifo.service.{name}", seconds)


async def test_a_dead_letter_of_the_mover_makes_way_for_the_next(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.store.create_queue(DEAD_LINE)
        await line.store.change_settings(LINE, {"max-receives": "1", "dead-letters": DEAD_LINE})
        await line.send_all(("1", "a"), ("2", "a"))
        [first] = await line.receive()
        os.utime(root / "delay" / f"{LINE}:{first.message_id}", ns=(0, 0))
        look_for(line, first)
        waiting = asyncio.create_task(line.receive(wait=30))

        move_due(root)

        assert bodies_of(await waiting) == ["2"]
        line.queue = DEAD_LINE
        assert await line.bodies() == ["1"]


async def test_a_short_poll_finds_what_a_dead_letter_has_made_way_for(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mq_sqs.fifo.service._LOOK_SECONDS", 3600.0)
    async with fifo_on(root) as line:
        await line.store.create_queue(DEAD_LINE)
        await line.store.change_settings(LINE, {"max-receives": "1", "dead-letters": DEAD_LINE})
        await line.send_all(("1", "a"), ("2", "a"), ("3", "a"))
        for body, is_asked_before in (("1", False), ("2", True)):
            [first] = await line.receive()
            assert bodies_of([first]) == [body]
            os.utime(root / "delay" / f"{LINE}:{first.message_id}", ns=(0, 0))
            look_for(line, first)
            if is_asked_before:
                assert await line.bodies() == []
            move_due(root)

        await until(line, "3")


async def test_a_dead_letter_that_was_shown_makes_way_for_the_next(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.store.create_queue(DEAD_LINE)
        await line.store.change_settings(LINE, {"max-receives": "1", "dead-letters": DEAD_LINE})
        await line.send_all(("1", "a"), ("2", "a"))
        [first] = await line.receive()

        assert await line.show(first)

        assert await line.bodies() == ["2"]
        assert names_in(root / "queues" / DEAD_LINE) == [first.message_id]


async def test_dead_letters_keep_their_order_and_their_groups(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.store.create_queue(DEAD_LINE)
        await line.store.change_settings(LINE, {"max-receives": "1", "dead-letters": DEAD_LINE})
        await line.send_all(("1", "a"), ("2", "a"), ("3", "b"))
        for each in reversed(await line.receive(10)):
            await line.show(each)

        line.queue = DEAD_LINE
        assert bodies_of(await line.receive(1)) == ["1"]
        assert bodies_of(await line.receive(10)) == ["3"]


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("how", ["removed", "moved by hand"])
async def test_a_message_in_flight_that_somebody_takes_away_makes_way_for_the_next(
    root: Path, how: str
) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"))
        [first] = await line.receive()
        if how == "removed":
            await line.store.remove(LINE, first.message_id)
        else:
            (root / "delay" / f"{LINE}:{first.message_id}").rename(root / "aside")

        await until(line, "2")


@pytest.mark.usefixtures("soon")
async def test_a_lease_that_is_over_keeps_its_group_until_the_mover_comes(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"))
        await line.receive(seconds=0.001)
        await asyncio.sleep(0.1)
        assert await line.bodies() == []

        move_due(root)

        await until(line, "1")


async def test_a_purge_by_another_server_makes_way(root: Path) -> None:
    async with fifo_on(root) as line, fifo_on(root) as other:
        await line.send_all(("1", "a"), ("2", "a"), ("3", "b"))
        await line.receive()
        await other.store.purge(LINE)
        await line.send("4", "b")

        assert await line.bodies() == ["4"]


async def test_a_message_that_is_gone_takes_no_memory_until_it_would_have_been_due(
    root: Path,
) -> None:
    async with fifo_on(root) as line:
        await line.send("first")
        [first] = await line.receive()
        for number in range(300):
            await line.send(str(number), "b")
            [found] = await line.receive(seconds=10_000.0)
            await line.remove(found)
        state = line.service._queues.get(LINE)
        assert state is not None

        assert len(state._dues) < 100
        assert state.expected() == [first.message_id]


OTHER_LINE = QueueName("other.fifo")


@pytest.mark.usefixtures("soon")
async def test_a_queue_that_the_disk_cannot_look_at_keeps_no_other_waiting(root: Path) -> None:
    """It goes on once the disk can."""
    files = WatchedFiles()
    is_broken = True

    def fail(_fd: int, name: str) -> None:
        if is_broken and name.startswith(f"{LINE}:"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    async with asyncio.timeout(30), fifo_on(root, files) as line:
        await line.store.create_queue(OTHER_LINE)
        other = FifoLine(line.store, OTHER_LINE)
        other.service = line.service
        for each in (line, other):
            await each.send_all(("1", "a"), ("2", "a"), ("3", "b"), ("4", "b"))
            first, second = await each.receive(), await each.receive()
            files.before["status_of"] = fail
            for received in first + second:
                (root / "delay" / f"{each.queue}:{received.message_id}").unlink()

        await until(other, "2")
        await until(other, "4")
        is_broken = False

        await until(line, "2")
        await until(line, "4")


async def test_after_an_error_of_the_disk_a_message_is_looked_for_again(root: Path) -> None:
    files = WatchedFiles()
    async with asyncio.timeout(30), fifo_on(root, files) as line:
        await line.send_all(("1", "a"), ("2", "a"), ("3", "b"), ("4", "b"))
        for received in await line.receive() + await line.receive():
            (root / "delay" / f"{LINE}:{received.message_id}").unlink()
            look_for(line, received)
        files.fail("status_of")
        with pytest.raises(StoreUnavailable):
            await line.receive()

        await until(line, "2")
        await until(line, "4")


async def test_idle_queues_take_no_look_each_time(root: Path) -> None:
    """There may be thousands. Each has its turn, and one that is deleted takes no memory then."""
    files = WatchedFiles()
    async with fifo_on(root, files) as line:
        queues = [QueueName(f"line-{number}.fifo") for number in range(100)]
        for queue in queues:
            await line.store.create_queue(queue)
            await line.service.require(queue)
        known = line.service._queues
        before = files.calls.total()

        await line.store.call(look_for_overdue, known)

        assert files.calls.total() < before + len(queues)

        await line.store.delete_queue(queues[0])
        while known.get(queues[0]) is not None:
            await line.store.call(look_for_overdue, known)


async def test_an_idle_queue_forgets_what_is_too_old_to_be_sent_twice(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send("1")
        state = line.service._queues.get(LINE)
        assert state is not None
        assert len(state.deduplication._ends) == 1
        state.clock = lambda: time.monotonic() + 301

        await line.store.call(look_for_overdue, line.service._queues)

        assert len(state.deduplication._ends) == 0
