"""Order within a group, and one message of a group in flight."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mq.names import queue_path
from mq_sqs.fifo import receiving
from mq_sqs.fifo.fifo_queue import FifoQueue
from mq_sqs.fifo.using import look_again
from tests.support.fifo import LINE, FifoLine, bodies_of, fifo_on
from tests.support.messages import names_in, pass_a_tick
from tests.support.redelivery import move_due
from tests.support.stores import body_of
from tests.support.waiting import WAIT_SECONDS, parked


async def test_each_group_comes_in_its_order_and_the_oldest_group_first(root: Path) -> None:
    async with fifo_on(root) as line:
        for body in ("b1", "a1", "a2", "b2", "a3"):
            await line.send(body, body[0])

        assert await line.bodies(3) == ["b1", "b2", "a1"]
        assert await line.bodies(10) == []


async def test_a_group_gives_nothing_out_while_one_of_it_is_in_flight(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"), ("3", "b"))
        [first] = await line.receive()

        assert await line.bodies() == ["3"]
        assert await line.bodies() == []
        await line.remove(first)
        assert await line.bodies() == ["2"]


async def test_a_message_that_is_shown_again_comes_first_again(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"), ("3", "a"))
        [first, second] = await line.receive(2)

        assert await line.show(second)
        assert await line.bodies() == []
        assert await line.show(first)
        assert await line.bodies() == ["1", "2", "3"]


async def test_a_message_whose_lease_ends_comes_first_again(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"))
        [first] = await line.receive()
        os.utime(root / "delay" / f"{LINE}:{first.message_id}", ns=(0, 0))

        move_due(root)

        assert await line.bodies(1) == ["1"]
        assert await line.bodies(1) == []


async def test_what_its_receiver_never_got_comes_first_again(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"), ("3", "a"))
        taken = await line.receive(2)

        await asyncio.gather(*map(line.store.put_back, taken))

        [first] = await line.receive()
        assert (bodies_of([first]), first.receive_count) == (["1"], 1)


async def test_a_message_that_somebody_holds_keeps_its_group_waiting_and_no_other(
    root: Path,
) -> None:
    async with fifo_on(root) as line:
        published = await line.send_all(("1", "a"), ("2", "a"), ("3", "b"))
        path = root / "queues" / queue_path(LINE, published[0].message_id)
        fd = os.open(path, os.O_RDONLY)
        try:
            line.store._work.files.lock(fd)
            assert await line.bodies() == ["3"]
        finally:
            os.close(fd)

        assert await line.bodies() == ["1", "2"]


async def test_who_waits_gets_a_message_once_nobody_holds_it_any_more(root: Path) -> None:
    async with fifo_on(root) as line:
        published = await line.send("1")
        path = root / "queues" / queue_path(LINE, published.message_id)
        fd = os.open(path, os.O_RDONLY)
        line.store._work.files.lock(fd)
        waiting = asyncio.create_task(line.receive(wait=30))
        await asyncio.sleep(0.02)
        os.close(fd)

        assert bodies_of(await waiting) == ["1"]


async def test_a_message_that_is_just_taken_is_not_looked_for(root: Path) -> None:
    async with fifo_on(root) as line:
        published = await line.send("1")
        [key] = (state := state_of(line)).groups.take(1)
        state.taking.add(published.message_id)

        look_again(line.store._work, state, published.message_id)
        assert state.groups.available == 0
        state.taking.clear()
        look_again(line.store._work, state, published.message_id)
        assert (state.groups.available, state.groups.take(1)) == (1, [key])


def state_of(line: FifoLine) -> FifoQueue:
    state = line.service._queues.get(LINE)
    assert state is not None
    return state


async def test_a_message_that_is_gone_makes_way_for_the_next(root: Path) -> None:
    async with fifo_on(root) as line:
        published = await line.send_all(("1", "a"), ("2", "a"))
        (root / "queues" / queue_path(LINE, published[0].message_id)).unlink()

        assert await line.bodies() == ["2"]


async def test_a_damaged_message_makes_way_for_the_next(root: Path) -> None:
    async with fifo_on(root) as line:
        published = await line.send_all(("1", "a"), ("2", "a"))
        (root / "queues" / queue_path(LINE, published[0].message_id)).write_bytes(b"torn")

        assert await line.bodies() == ["2"]
        assert names_in(root / "corrupt") == [f"{LINE}:{published[0].message_id}"]


@pytest.mark.parametrize("size", [200_000, 600_000])
async def test_a_large_damaged_message_keeps_back_none_that_was_taken_with_it(
    root: Path, size: int
) -> None:
    async with fifo_on(root) as line:
        bodies = ["1" * size, "2", "3" * size, "4"]
        published = await line.send_all(*zip(bodies, "abca", strict=True))
        with (root / "queues" / queue_path(LINE, published[0].message_id)).open("r+b") as file:
            file.write(b"torn")

        taken = await line.receive(10)

        found = [await body_of(line.store, each) for each in taken]
        assert {*found} == {each.encode() for each in bodies[1:]}
        assert names_in(root / "corrupt") == [f"{LINE}:{published[0].message_id}"]


async def test_what_is_too_old_is_not_received_though_the_look_for_it_has_missed_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fifo_on(root) as line:
        published = await line.send_all(("1", "a"), ("2", "a"), ("3", "b"))
        await line.store.change_settings(LINE, {"ttl": "0.000001"})
        pass_a_tick()

        monkeypatch.setattr(receiving, "expire_some", lambda *_: False)

        assert await line.bodies() == []
        assert names_in(root / "remove") == sorted(
            f"{LINE}:{each.message_id}" for each in published
        )


async def test_a_file_without_a_group_keeps_nobody_waiting(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send("1")
        (root / "queues" / LINE / "by-hand").write_bytes(b"x")
        (root / "queues" / LINE / "by-hand-2").write_bytes(b"y")
        [first] = await line.receive()

        assert sorted(bodies_of([first, *await line.receive(10)])) == ["1", "x", "y"]


async def test_who_waits_is_woken_by_a_message_and_by_the_end_of_one_before_it(root: Path) -> None:
    async with fifo_on(root) as line:
        waiting = asyncio.create_task(line.receive(wait=30))
        await line.send_all(("1", "a"), ("2", "a"))
        [first] = await waiting
        waiting = asyncio.create_task(line.receive(wait=30))
        await asyncio.sleep(0)
        assert not waiting.done()

        await line.remove(first)

        assert bodies_of(await waiting) == ["2"]


async def test_a_paused_queue_gives_nothing_out(root: Path) -> None:
    async with fifo_on(root, notes={"paused": "true"}) as line:
        await line.send("1")
        assert await line.bodies() == []

        await line.store.change_settings(LINE, {"paused": "false"})

        assert await line.bodies() == ["1"]


async def test_a_delayed_message_keeps_those_behind_it_and_not_those_before(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send("1")
        await line.store.change_settings(LINE, {"delay": "900"})
        delayed = await line.send("2")
        await line.store.change_settings(LINE, {"delay": ""})
        await line.send("3")

        [first] = await line.receive(10)
        await line.remove(first)
        assert await line.bodies() == []
        os.utime(root / "delay" / f"{LINE}:{delayed.message_id}", ns=(0, 0))
        move_due(root)
        assert await line.bodies() == ["2", "3"]


@pytest.mark.parametrize("receivers", [1, 8])
async def test_many_receivers_break_no_order(root: Path, receivers: int) -> None:
    async with fifo_on(root) as line:
        sent = {group: [f"{group}{number}" for number in range(30)] for group in "abcde"}
        for number in range(30):
            await line.send_all(*((f"{group}{number}", group) for group in "abcde"))
        got: list[str] = []
        in_flight: set[str] = set()

        async def work(which: int) -> None:
            while taken := await line.receive(which % 3 + 1, wait=0.2):
                groups = {body[0] for body in bodies_of(taken)}
                assert not groups & in_flight
                in_flight.update(groups)
                got.extend(bodies_of(taken))
                await asyncio.sleep(0)
                in_flight.difference_update(groups)
                for each in reversed(taken):
                    await line.remove(each)

        await asyncio.gather(*(work(which) for which in range(receivers)))

        assert {group: [body for body in got if body[0] == group] for group in "abcde"} == sent


async def test_one_who_does_not_wait_leaves_a_message_to_one_who_does(root: Path) -> None:
    async with fifo_on(root) as line:
        assert await line.bodies() == []
        waiting = asyncio.create_task(line.receive(wait=WAIT_SECONDS))
        await parked(line.store, 1, LINE)
        line.store._work.ready.came = lambda queue, count: None  # They are not told yet.
        await line.send("1")

        assert await line.bodies() == []
        async with asyncio.timeout(20):
            assert bodies_of(await waiting) == ["1"]
