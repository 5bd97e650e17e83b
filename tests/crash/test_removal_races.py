"""DELETE of a message while it is redelivered and received again: never missed, never wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.crash.arena import LEASE, RACES, Arena, Races

LEAST_IN_THE_WINDOW = 0.05
"""The share of races in which both sides must have been at it at once."""


@pytest.fixture(params=RACES, ids=str)
def races(request: pytest.FixtureRequest) -> Races:
    made = request.param
    assert isinstance(made, Races)
    return made


@pytest.fixture
def arena(races: Races, tmp_path: Path) -> Iterator[Arena]:
    with ExitStack() as closer:
        yield Arena(tmp_path / "root", races.files, closer)


def test_removal_finds_a_message_that_is_moved_while_it_looks(arena: Arena, races: Races) -> None:
    tally: Counter[str] = Counter()
    for _ in range(races.times):
        arena.leased.rename(arena.ready)
        status, _, is_within = arena.race(arena.remove, arena.receive_redeliver_and_receive)

        tally[status] += 1
        tally["in the window"] += is_within
        tally["stayed"] += arena.places() != [arena.removed]
        arena.lease_again()

    assert tally["202"] == races.times, tally
    assert tally["stayed"] == 0, tally
    assert tally["in the window"] >= LEAST_IN_THE_WINDOW * races.times, tally


def test_removal_under_the_current_lease_wins_or_the_next_receiver_does(
    arena: Arena, races: Races
) -> None:
    tally: Counter[str] = Counter()
    for _ in range(races.times):
        status, redelivered, is_within = arena.race(
            lambda: arena.remove_under(LEASE), arena.redeliver_and_receive
        )

        received = redelivered.received
        won, lost = (status, received) == ("202", None), status == "412" and received is not None
        tally[f"{status}, {'not ' if received is None else ''}received again"] += 1
        tally["in the window"] += is_within
        if won:
            tally["stayed"] += arena.places() != [arena.removed]
        elif lost:
            tally["stolen"] += arena.places() != [arena.leased]
        else:
            tally["wrong"] += 1
        arena.lease_again()

    assert tally["wrong"] == tally["stayed"] == tally["stolen"] == 0, tally
    assert tally["202, not received again"] > 0 < tally["412, received again"], tally
    assert tally["in the window"] >= LEAST_IN_THE_WINDOW * races.times, tally


def test_stale_lease_removes_nothing(arena: Arena, races: Races) -> None:
    tally: Counter[str] = Counter()
    for _ in range(races.times):
        status, _, is_within = arena.race(lambda: arena.remove_under(LEASE - 1), arena.redeliver)

        tally[status] += 1
        tally["in the window"] += is_within
        tally["removed"] += arena.places() not in ([arena.leased], [arena.ready])
        arena.lease_again()

    assert tally["412"] == races.times, tally
    assert tally["removed"] == 0, tally
    assert tally["in the window"] >= LEAST_IN_THE_WINDOW * races.times, tally
