"""Messages that go their way while a gateway reads the queue that they were sent to, at each moment
at which it opens a file or a folder: they are not sent again, and keep their place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from mq.names import MessageId, QueueName, queue_path
from tests.support.faults import WatchedFiles
from tests.support.fifo import DEAD_LINE, LINE, FifoLine, fifo_on
from tests.support.redelivery import move_due

READ = ("open_folder", "open_to_look")


class PlacesOnTheWay(NamedTuple):
    """Where a message of a queue is on its way."""

    root: Path
    new: Path
    ready: Path
    hidden: Path
    removed: Path

    @classmethod
    def of(cls, root: Path, message_id: MessageId, queue: QueueName = LINE) -> PlacesOnTheWay:
        ready = root / "queues" / queue_path(queue, message_id)
        new, hidden, removed = (root / name for name in ("new", "delay", "remove"))
        flat = f"{queue}:{message_id}"
        return cls(root, new / flat, ready, hidden / flat, removed / flat)


Step = Callable[[PlacesOnTheWay], object]
Look = Callable[[FifoLine], Awaitable[None]]


def is_received(places: PlacesOnTheWay) -> None:
    places.ready.rename(places.hidden)


def is_received_and_removed(places: PlacesOnTheWay) -> None:
    places.ready.rename(places.hidden)
    places.hidden.rename(places.removed)


def is_removed(places: PlacesOnTheWay) -> None:
    places.hidden.rename(places.removed)


def comes_back(places: PlacesOnTheWay) -> None:
    places.hidden.rename(places.ready)


def is_delivered(places: PlacesOnTheWay) -> None:
    with suppress(FileNotFoundError):  # The gateway has delivered it.
        places.new.rename(places.ready)


async def at_each_moment(
    before: Path, place: tuple[MessageId, QueueName, str], step: Step, look: Look
) -> None:
    """Let gateways read copies of a root, each with a step of a message that is made at a later
    moment of the reading than with the gateway before."""
    message_id, queue, state = place
    for moment in count(1):
        files = WatchedFiles()
        root = shutil.copytree(before, before.with_name(f"moment-{moment}"))
        places = PlacesOnTheWay.of(root, message_id, queue)
        left = moment

        def pass_by(*_: object, places: PlacesOnTheWay = places) -> None:
            nonlocal left
            left -= 1
            if not left:
                step(places)

        async with fifo_on(root, files) as line:
            if state == "new":
                places.ready.rename(places.new)
            files.before |= dict.fromkeys(READ, pass_by)
            await look(line)
            files.before.clear()
        if left > 0:
            assert moment > 5
            return


@pytest.mark.parametrize(
    ("state", "step"),
    [
        ("ready", is_received),
        ("ready", is_received_and_removed),
        ("leased", is_removed),
        ("leased", comes_back),
    ],
)
async def test_a_dead_letter_that_goes_its_way_meanwhile_is_not_sent_again(
    tmp_path: Path, state: str, step: Step
) -> None:
    before = tmp_path / "before"
    async with fifo_on(before) as line:
        await line.store.create_queue(DEAD_LINE)
        await line.store.change_settings(LINE, {"max-receives": "1", "dead-letters": DEAD_LINE})
        first = await line.send("1")
        await line.show((await line.receive())[0])
    if state == "leased":
        is_received(PlacesOnTheWay.of(before, first.message_id, DEAD_LINE))

    async def look(line: FifoLine) -> None:
        assert (await line.send("1")).message_id == first.message_id

    await at_each_moment(before, (first.message_id, DEAD_LINE, state), step, look)


async def test_a_message_that_dies_meanwhile_is_not_sent_again(tmp_path: Path) -> None:
    before = tmp_path / "before"
    async with fifo_on(before) as line:
        await line.store.create_queue(DEAD_LINE)
        await line.store.change_settings(LINE, {"max-receives": "1", "dead-letters": DEAD_LINE})
        first = await line.send("1")
        await line.receive()

    def dies(places: PlacesOnTheWay) -> None:
        os.utime(places.hidden, ns=(0, 0))
        move_due(places.root)

    async def look(line: FifoLine) -> None:
        assert (await line.send("1")).message_id == first.message_id

    await at_each_moment(before, (first.message_id, LINE, "leased"), dies, look)


@pytest.mark.parametrize(
    ("state", "step"),
    [("leased", comes_back), ("delayed", comes_back), ("new", is_delivered)],
)
async def test_a_message_that_goes_its_way_meanwhile_keeps_its_place(
    tmp_path: Path, state: str, step: Step
) -> None:
    before = tmp_path / "before"
    async with fifo_on(before, notes={"delay": "900"} if state == "delayed" else {}) as line:
        first = await line.send("1")
        await line.store.change_settings(LINE, {"delay": ""})
        await line.send("2")
        if state == "leased":
            await line.receive()

    async def look(line: FifoLine) -> None:
        assert await line.bodies() in ([], ["1", "2"])

    await at_each_moment(before, (first.message_id, LINE, state), step, look)


async def test_messages_of_other_queues_are_not_opened(root: Path) -> None:
    """There may be far more of them than of the queue that is read."""
    files = WatchedFiles()
    async with fifo_on(root, files) as line:
        await line.store.create_queue(DEAD_LINE)
        line.queue = DEAD_LINE
        await line.send_all(*((str(number), "a") for number in range(20)))
        for each in await line.receive(10):
            await line.remove(each)
        line.queue = LINE
        before = files.calls["open_to_look"]

        await line.send("1")

        assert files.calls["open_to_look"] < before + 5
