"""What a gateway that starts reads from the files."""

from __future__ import annotations

import asyncio
import errno
import os
from contextlib import closing
from pathlib import Path

import pytest

from mq.config import ReaperConfig
from mq.disk.files import Files
from mq.errors import StoreUnavailable
from mq.names import MessageId, queue_path
from mq_reaper.reaper import Reaper
from tests.support.faults import WatchedFiles
from tests.support.fifo import DEAD_LINE, LINE, FifoLine, bodies_of, bury, fifo_on
from tests.support.messages import names_in
from tests.support.redelivery import move_due


def reap_all(root: Path) -> None:
    """What a reaper does that keeps nothing."""
    with closing(Reaper(ReaperConfig(root / "remove", 0), Files())) as reaper:
        reaper.reap()


async def test_order_and_groups_are_those_of_before(root: Path) -> None:
    async with fifo_on(root) as line:
        for number in range(20):
            await line.send(f"{number:02}", "ab"[number % 2])
        [first] = await line.receive()

    async with fifo_on(root) as line:
        assert await line.bodies(10) == [f"{number:02}" for number in range(1, 20, 2)]
        await line.remove(first)
        assert await line.bodies(10) == [f"{number:02}" for number in range(2, 20, 2)]


async def test_a_lease_goes_on_and_ends_as_it_would_have(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"))
        [first] = await line.receive()

    async with fifo_on(root) as line:
        assert await line.bodies() == []
        assert await line.show(first)
        assert await line.bodies() == ["1", "2"]


async def test_a_message_that_came_back_while_no_gateway_ran_comes_first(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"))
        [first] = await line.receive()
    os.utime(root / "delay" / f"{LINE}:{first.message_id}", ns=(0, 0))
    move_due(root)

    async with fifo_on(root) as line:
        assert await line.bodies(1) == ["1"]


async def test_a_delayed_message_still_keeps_those_behind_it(root: Path) -> None:
    async with fifo_on(root, notes={"delay": "900"}) as line:
        await line.send("1")
        await line.store.change_settings(LINE, {"delay": ""})
        await line.send("2")

    async with fifo_on(root) as line:
        assert await line.bodies() == []
        await line.send("3", "b")
        assert await line.bodies() == ["3"]


async def test_what_is_there_is_not_sent_again(root: Path) -> None:
    """Ready, leased, delayed, removed, purged, and in the queue for dead letters."""
    async with fifo_on(root) as line:
        await line.store.create_queue(DEAD_LINE)
        first = {"purged": await line.send("purged")}
        await line.store.purge(LINE)
        for body in ("removed", "dead", "leased"):
            first[body] = await line.send(body, body)
        removed, dead, _ = await line.receive(10)
        await line.remove(removed)
        await line.store.change_settings(LINE, {"max-receives": "1", "dead-letters": DEAD_LINE})
        await line.show(dead)
        assert names_in(root / "queues" / DEAD_LINE) == [dead.message_id]
        first["ready"] = await line.send("ready")
        await line.store.change_settings(LINE, {"delay": "900"})
        first["delayed"] = await line.send("delayed")
        reap_all(root)

    async with fifo_on(root) as line:
        for body, published in first.items():
            again = await line.send(body)
            assert (again.message_id, again.is_duplicate) == (published.message_id, True), body


async def test_what_was_sent_more_than_five_minutes_ago_is_sent_again(root: Path) -> None:
    async with fifo_on(root) as line:
        line.store._work.ids._clock_ns = lambda: 1_700_000_000 * 10**9
        line.store._work.ids._last_tick = 0
        first = await line.send("1")
        await line.remove((await line.receive())[0])

    async with fifo_on(root) as line:
        again = await line.send("1")
        assert again.message_id != first.message_id
        assert not again.is_duplicate


async def test_the_reaper_keeps_what_was_sent_to_a_fifo_queue_for_five_minutes(root: Path) -> None:
    async with fifo_on(root) as line:
        one = await line.send("1")
        await line.remove((await line.receive())[0])
        two = await line.send("2")
        await line.store.purge(LINE)
        (root / "remove" / "orders:1").write_bytes(b"")

    reap_all(root)

    removed = f"{LINE}:{one.message_id}"
    assert sorted(os.listdir(root / "remove")) == sorted([removed, f"{LINE}:.purged"])
    assert os.listdir(root / "remove" / f"{LINE}:.purged" / "1") == [two.message_id]


async def test_a_message_that_somebody_else_brings_takes_its_place(root: Path) -> None:
    """By a sweep, a move from the dead letters, or by hand: its group is read from the file."""
    async with fifo_on(root) as line:
        first, second, _ = await line.send_all(("1", "a"), ("2", "a"), ("3", "b"))
        path = root / "queues" / queue_path(LINE, first.message_id)
        path.rename(root / "aside")
        # Who does not know yet that the first is gone keeps its group waiting once.
        assert sorted(await line.bodies() + await line.bodies()) == ["2", "3"]
        (root / "aside").rename(path)

        assert await line.bodies() == []
        await line.remove_many([second.message_id], frozenset(leases(root)))
        assert await line.bodies() == ["1"]


def leases(root: Path) -> list[int]:
    """Those of all that is in flight."""
    found = (os.getxattr(path, "user.mq") for path in (root / "delay").iterdir())
    return [int.from_bytes(seal[24:32]) for seal in found]


async def test_later_ids_are_above_those_of_a_gateway_with_another_clock(root: Path) -> None:
    async with fifo_on(root) as line, fifo_on(root) as other:
        await other.send("1")
        await line_publishes_ahead(other)
        other.service.close()
        await line.send("3")

        assert await line.drain() == ["1", "2", "3"]


async def line_publishes_ahead(line: FifoLine) -> None:
    """Publish by a clock that is a minute ahead."""
    ids = line.store._work.ids
    ids._last_tick += 60_000 << 12
    await line.send("2")


async def test_a_file_that_cannot_be_read_is_alone_in_its_group(root: Path) -> None:
    async with fifo_on(root) as line:
        one, _ = await line.send_all(("1", "a"), ("2", "a"))
    (root / "queues" / queue_path(LINE, one.message_id)).write_bytes(b"")

    async with fifo_on(root) as line:
        assert bodies_of(await line.receive(10)) == ["2"]
        assert names_in(root / "corrupt") == [f"{LINE}:{one.message_id}"]


# What a gateway that was killed has left in `new`: another takes over, and its sweep comes later


def take_back_to_new(root: Path, message_id: MessageId) -> Path:
    """Undo the delivery of a message, as if its gateway had been killed before it."""
    left = root / "new" / f"{LINE}:{message_id}"
    (root / "queues" / queue_path(LINE, message_id)).rename(left)
    return left


async def test_a_message_that_was_not_delivered_comes_before_later_ones(root: Path) -> None:
    async with fifo_on(root) as killed, fifo_on(root) as line:
        first = await killed.send("1")
        killed.service.close()
        take_back_to_new(root, first.message_id)

        await line.send("2")

        assert await line.drain() == ["1", "2"]


async def test_a_message_that_was_not_delivered_is_not_sent_again(disk: Path) -> None:
    """It is durable by then: the answer says so, and its gateway may have been killed before."""
    files = WatchedFiles()
    async with fifo_on(disk) as killed, fifo_on(disk, files) as line:
        first = await killed.send("1")
        killed.service.close()
        take_back_to_new(disk, first.message_id)
        before = files.calls["sync_file_system"]

        again = await line.send("1")

        assert (again.message_id, again.is_duplicate) == (first.message_id, True)
        assert files.calls["sync_file_system"] > before
        assert await line.drain() == ["1"]


async def test_a_message_that_cannot_be_delivered_yet_keeps_those_behind_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gateway is just dying, or the disk fails."""
    monkeypatch.setattr("mq.store.maintenance.SWEEP_SECONDS", 0.05)
    async with fifo_on(root) as killed, fifo_on(root) as line:
        first = await killed.send("1")
        killed.service.close()
        fd = os.open(take_back_to_new(root, first.message_id), os.O_RDONLY)
        line.store._work.files.lock(fd)
        await line.send("2")

        assert await line.bodies() == []
        assert (await line.send("1")).is_duplicate
        os.close(fd)
        found: list[str] = []
        while len(found) < 2:  # until a sweep has delivered it
            found += await line.drain()
            await asyncio.sleep(0.01)
        assert found == ["1", "2"]


async def test_what_is_removed_while_the_queue_is_read_is_not_sent_again(root: Path) -> None:
    async with fifo_on(root) as line:
        first, _ = await line.send_all(("1", "a"), ("2", "b"))
    removed = root / "remove" / f"{LINE}:{first.message_id}"
    files = WatchedFiles()
    async with fifo_on(root, files) as line:

        def remove(_: int, name: str) -> None:
            if name == first.message_id:
                del files.before["open_to_look"]
                (root / "queues" / queue_path(LINE, first.message_id)).rename(removed)

        files.before["open_to_look"] = remove
        await line.receive()
        assert removed.exists()

        assert (await line.send("1")).message_id == first.message_id


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ESTALE, errno.EIO])
@pytest.mark.parametrize("state", ["ready", "leased", "removed"])
async def test_a_message_that_cannot_be_read_just_now_is_not_taken_for_one_without_a_group(
    root: Path, state: str, code: int
) -> None:
    async with fifo_on(root) as line:
        first, _ = await line.send_all(("1", "a"), ("2", "a"))
        if state != "ready":
            [taken] = await line.receive()
        if state == "removed":
            await line.remove(taken)
    files = WatchedFiles()
    async with fifo_on(root, files) as line:
        files.fail("open_to_look", code=code)
        try:
            found = await line.bodies()
        except StoreUnavailable:
            found = await line.bodies()

        assert found == {"ready": ["1", "2"], "leased": [], "removed": ["2"]}[state]
        assert (await line.send("1")).message_id == first.message_id


async def test_a_queue_that_was_made_again_knows_nothing_of_dead_letters_of_the_one_before(
    root: Path,
) -> None:
    async with fifo_on(root) as line:
        await bury(line, root, "1")
        await line.store.delete_queue(LINE)
        await line.store.create_queue(LINE, await line.service.forgetting())

        again = await line.send("1")

        assert not again.is_duplicate
        assert await line.drain() == ["1"]
