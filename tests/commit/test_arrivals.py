"""Operations on their way to a round: none is lost, and the waiting ones are counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from mq.commit.arrivals import Arrivals
from mq.commit.engine import Engine
from mq.commit.operation import Operation, Pause, Submitted


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    with ThreadPoolExecutor(1) as workers:
        yield Engine(workers, lambda _: None)


def _operation() -> Operation[None]:
    yield Pause(0.0)


def _come(arrivals: Arrivals, *requests: int) -> list[Submitted]:
    """A turn of operations for that many requests each."""
    turn = [Submitted(_operation(), requests=number) for number in requests]
    for each in turn:
        arrivals.count(each)
    return turn


async def test_a_round_takes_what_came_first_up_to_its_limit(engine: Engine) -> None:
    arrivals = Arrivals(engine)
    turns = [_come(arrivals, 1, 3), _come(arrivals, 1, 1)]
    for turn in turns:
        arrivals.put(turn)
    assert arrivals.waiting() == 6

    assert arrivals.take(3) == [*turns[0], turns[1][0]]
    assert arrivals.waiting() == 1
    assert arrivals.take(3) == [turns[1][1]]
    assert arrivals.take(3) == []
    assert not arrivals.has_turn()


async def test_a_turn_taken_at_once_leaves_the_others_in_place(engine: Engine) -> None:
    arrivals = Arrivals(engine)
    first, second = _come(arrivals, 1), _come(arrivals, 1, 1)
    arrivals.put(first)

    assert arrivals.take_at_once(second) == second
    assert arrivals.waiting() == 1
    assert arrivals.take(9) == first


async def test_one_that_has_waited_is_no_new_request(engine: Engine) -> None:
    arrivals = Arrivals(engine)
    (waited,) = _come(arrivals, 1)
    arrivals.take_at_once([waited])
    assert engine.advance([waited]) == []
    assert engine.away == 1

    arrivals.put([waited])
    assert arrivals.waiting() == 0
    assert arrivals.take(9) == [waited]
    assert engine.away == 0


async def test_all_that_is_left_behind_the_end_is_taken_too(engine: Engine) -> None:
    arrivals = Arrivals(engine)
    turns = [_come(arrivals, 1), _come(arrivals, 1, 1)]
    arrivals.put(turns[0])
    arrivals.end()
    arrivals.put(turns[1])

    assert arrivals.take(1) == turns[0]
    assert arrivals.take_all() == turns[1]
    assert arrivals.is_ended
    assert arrivals.waiting() == 0
