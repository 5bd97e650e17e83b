"""A FIFO queue while a person moves its files, and while the clock is set: order within a group is
kept, and nothing is lost."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from mq.names import queue_path
from tests.support.fifo import LINE, FifoLine, bodies_of, fifo_on
from tests.support.messages import names_in
from tests.support.redelivery import move_due

HOUR_NS = 3600 * 10**9


def set_clock(line: FifoLine, step_ns: int) -> None:
    """The gateway's clock from here on, beside the machine's."""
    work = line.store._work
    work.clock_ns = work.ids._clock_ns = lambda: time.time_ns() + step_ns


@pytest.mark.parametrize("steps", [(1, 0), (-1, 0), (1, -1), (-1, 1)])
async def test_order_and_deduplication_outlast_steps_of_the_clock(
    root: Path, steps: tuple[int, int]
) -> None:
    async with fifo_on(root) as line:
        sent = [await line.send("1")]
        for number, step in enumerate(steps, start=2):
            set_clock(line, step * HOUR_NS)
            sent.append(await line.send(str(number)))
            assert (await line.send("1")).is_duplicate

        assert [each.message_id for each in sent] == sorted(each.message_id for each in sent)
        assert await line.drain() == ["1", "2", "3"]


async def test_a_gateway_that_starts_after_the_clock_was_set_back_goes_on_in_order(
    root: Path,
) -> None:
    async with fifo_on(root) as line:
        set_clock(line, HOUR_NS)
        await line.send("1")

    async with fifo_on(root) as line:
        await line.send("2")
        assert (await line.send("1")).is_duplicate
        assert await line.drain() == ["1", "2"]


@pytest.mark.parametrize("step", [1, -1])
async def test_a_lease_outlasts_a_step_of_the_clock_or_ends_early(root: Path, step: int) -> None:
    """Set forward, the clock ends leases, and the first of a group comes first again."""
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"))
        [first] = await line.receive(1, 600.0)
        set_clock(line, step * HOUR_NS)
        stamp = root / "delay" / f"{LINE}:{first.message_id}"
        if step > 0:
            # A mover by that clock finds it due.
            due_ns = stamp.stat().st_mtime_ns - HOUR_NS
            os.utime(stamp, ns=(due_ns, due_ns))
        move_due(root)

        assert await line.bodies(1) == (["1"] if step > 0 else [])
        assert len(names_in(root / "delay")) == 1


async def test_a_person_brings_a_message_that_is_in_flight_back_to_its_place(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"), ("3", "b"))
        taken = await line.receive(10)
        assert bodies_of(taken) == ["1", "2", "3"]
        for each in taken[:2]:
            name = root / "delay" / f"{LINE}:{each.message_id}"
            name.rename(root / "queues" / queue_path(LINE, each.message_id))

        again = await line.receive(10)

        assert bodies_of(again) == ["1", "2"]
        for each in [*again, taken[2]]:
            await line.remove(each)
        assert await line.drain() == []
