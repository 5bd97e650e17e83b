"""Operations of one turn of the event loop are handed over together, and when."""

from __future__ import annotations

import asyncio

import pytest

from mq.commit.gathering import Gathering
from mq.commit.operation import Operation, Submitted
from mq.commit.turns import Turns


def _operation() -> Operation[None]:
    yield from ()


class _Taker:
    def __init__(self, *, is_at_once: bool, gathering: Gathering | None = None) -> None:
        self.handed_over: list[int] = []
        self.turns = Turns(self._take, lambda: is_at_once, gathering)

    def _take(self, turn: list[Submitted]) -> None:
        self.handed_over.append(len(turn))

    def add(self) -> None:
        self.turns.add(Submitted(_operation()))


@pytest.mark.parametrize(
    ("is_at_once", "looks"),
    [
        pytest.param(True, 1, id="the thread makes the round"),
        pytest.param(False, 2, id="the event loop does, and looks at its sockets before"),
    ],
)
async def test_what_comes_before_the_hand_over_joins(is_at_once: bool, looks: int) -> None:
    taker = _Taker(is_at_once=is_at_once)
    for _ in range(looks):
        taker.add()
        assert taker.handed_over == []
        await asyncio.sleep(0)
    assert taker.handed_over == [looks]

    taker.add()
    for _ in range(looks):
        await asyncio.sleep(0)
    assert taker.handed_over == [looks, 1]


async def test_as_long_as_more_come_they_are_handed_over_together() -> None:
    taker = _Taker(is_at_once=False)
    for count in (1, 3, 1, 2):
        for _ in range(count):
            taker.add()
        await asyncio.sleep(0)
        assert taker.handed_over == []
    for _ in range(2):
        await asyncio.sleep(0)
    assert taker.handed_over == [7]


async def test_beside_others_it_looks_after_each_pause() -> None:
    gathering = Gathering(lambda _: None)
    gathering.expect(3)
    taker = _Taker(is_at_once=False, gathering=gathering)
    for _ in range(3):
        taker.add()
        assert taker.handed_over == []
        await asyncio.sleep(0)

    async with asyncio.timeout(20):
        while not taker.handed_over:
            await asyncio.sleep(0)
    assert taker.handed_over == [3]


async def test_at_the_end_what_has_come_is_handed_over_at_once() -> None:
    taker = _Taker(is_at_once=False)
    taker.add()

    taker.turns.hand_over()

    assert taker.handed_over == [1]


async def test_a_defect_in_what_is_submitted_later_holds_up_nobody_else() -> None:
    taker = _Taker(is_at_once=True)

    def fail() -> None:
        raise AssertionError("a defect")

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    taker.turns.add_later(fail)
    taker.add()
    await asyncio.sleep(0)
    assert taker.handed_over == [1]

    taker.add()
    await asyncio.sleep(0)
    assert taker.handed_over == [1, 1]
