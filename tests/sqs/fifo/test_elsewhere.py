"""What was sent to FIFO queues and is not in them any more, read for several queues at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.config import DEDUPLICATION_SECONDS
from mq.disk.files import Files
from mq.names import QueueName
from mq.store.publishing.publish import Published
from tests.support.faults import WatchedFiles
from tests.support.fifo import DEAD_LINE, LINE, FifoLine, fifo_on
from tests.support.messages import SECOND_NS

OTHERS = [QueueName(f"other-{number}.fifo") for number in range(10)]


class AskedFiles(Files):
    """Files that count how often an attribute was asked for. The first one waits until `is_begun`
    says so."""

    asked = 0
    is_begun: Callable[[], bool] = bool

    def attribute(self, fd: int | str, name: str) -> bytes | None:
        while not self.asked and not self.is_begun():
            time.sleep(0.001)
        self.asked += 1
        return super().attribute(fd, name)


def beside(line: FifoLine, queue: QueueName) -> FifoLine:
    """Another queue of the same gateway."""
    other = FifoLine(line.store, queue)
    other.service = line.service
    return other


async def test_queues_that_are_read_at_once_remember_each_its_own(root: Path) -> None:
    """What died, what died and was removed since, and what a message in another queue was sent as,
    whatever the queue for dead letters asks itself."""
    queues = [LINE, *OTHERS[:3]]
    first: dict[tuple[QueueName, str], Published] = {}
    async with fifo_on(root) as line:
        await line.store.create_queue(DEAD_LINE)
        dead = beside(line, DEAD_LINE)
        for queue in queues:
            each = beside(line, queue)
            await line.store.create_queue(queue)
            await line.store.change_settings(
                queue, {"max-receives": "1", "dead-letters": DEAD_LINE}
            )
            for body in ("dies", "is removed", "stays"):
                first[queue, body] = await each.send(body, body)
            await each.show((await each.receive())[0])
            [removed] = await each.receive()
            await each.remove(removed)
        first[DEAD_LINE, "own"] = await dead.send("own")
        [letter] = await dead.receive()
        await dead.remove(letter)

    async with fifo_on(root) as line:
        asked = [*queues, DEAD_LINE]
        await asyncio.gather(*(line.service.require(queue) for queue in asked))

        for (queue, body), published in first.items():
            again = await beside(line, queue).send(body, body)
            assert (again.message_id, again.is_duplicate) == (published.message_id, True), body
        for body in ("dies", "is removed", "stays"):
            assert not (await beside(line, DEAD_LINE).send(body, body)).is_duplicate


async def test_queues_that_are_read_at_once_share_what_takes_long(root: Path) -> None:
    async with fifo_on(root) as line:
        for queue in OTHERS:
            await line.store.create_queue(queue)
        for number in range(5):
            await line.send_all(*((f"{number}.{at}", "a") for at in range(10)))
            for each in await line.receive(10):
                await line.remove(each)

    files = AskedFiles()
    files.asked = 1
    async with fifo_on(root, files) as line:
        known = line.service._queues
        files.asked, files.is_begun = 0, lambda: len(known.asks) == len(OTHERS)

        await asyncio.gather(*(line.service.require(queue) for queue in OTHERS))

        assert 50 <= files.asked <= 2 * 50


async def test_what_was_purged_or_removed_before_that_is_not_read(root: Path) -> None:
    """After PurgeQueue everything may be sent again, and nobody waits for what was there."""
    files = AskedFiles()
    files.asked = 1
    async with fifo_on(root, files) as line:
        await line.send_all(*((str(at), str(at)) for at in range(20)))
        for each in await line.receive(10):
            await line.remove(each)
        await line.service.purge(LINE)
        before = files.asked

        sent = await line.send("1")

        assert not sent.is_duplicate
        assert files.asked - before < 10
        assert (await line.send("1")).is_duplicate


async def test_a_folder_that_has_not_changed_since_is_not_listed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is five minutes and some seconds later."""
    files, listed = WatchedFiles(), list[str]()
    async with fifo_on(root, files) as line:
        await line.store.create_queue(DEAD_LINE)

        def later(_clock: object = None) -> int:
            return time.time_ns() + (DEDUPLICATION_SECONDS + 10) * SECOND_NS

        line.store._work.clock_ns = later
        monkeypatch.setattr(time, "clock_gettime_ns", later)
        await beside(line, DEAD_LINE).send("1")
        files.before["open_folder"] = lambda _fd, name: listed.append(name)

        await line.send("1")

        assert LINE in listed
        assert DEAD_LINE not in listed
