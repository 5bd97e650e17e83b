"""Deleting, and changing the visibility, under receipts that are current or not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mq.errors import LeaseMismatch, MessageNotFound
from mq.names import MessageId
from tests.support.fifo import LINE, bodies_of, fifo_on
from tests.support.redelivery import move_due


async def test_several_are_removed_and_what_is_wrong_is_reported_of_each(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"), ("3", "a"), ("4", "b"))
        one, two, other = await line.receive(2) + await line.receive(1)
        leases = frozenset({one.lease, two.lease, 7})
        ids = [one.message_id, other.message_id, MessageId("nobody"), two.message_id]

        told = await line.remove_many(ids, leases)

        assert [type(each) for each in told] == [
            type(None), LeaseMismatch, MessageNotFound, type(None)
        ]  # fmt: skip
        assert await line.bodies() == ["3"]


async def test_an_older_receipt_removes_nothing_and_frees_nothing(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"))
        [older] = await line.receive()
        await line.show(older)
        [newer] = await line.receive()

        with pytest.raises(LeaseMismatch):
            await line.remove(older)
        assert not await line.show(older)
        assert await line.bodies() == []
        await line.remove(newer)
        assert await line.bodies() == ["2"]


async def test_a_message_that_came_back_can_be_removed_until_it_is_received(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"))
        [first] = await line.receive()
        os.utime(root / "delay" / f"{LINE}:{first.message_id}", ns=(0, 0))
        move_due(root)

        await line.remove(first)

        assert await line.bodies() == ["2"]


async def test_a_prolonged_lease_keeps_the_group_for_longer(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"))
        [first] = await line.receive(seconds=60)

        assert await line.service.change_visibility(LINE, first.message_id, first.lease, 900)

        state = line.service._queues.get(LINE)
        assert state is not None
        assert state.pop_overdue(first.visible_ns, 10) == []
        assert state.expected() == [first.message_id]
        assert bodies_of(await line.receive()) == []
