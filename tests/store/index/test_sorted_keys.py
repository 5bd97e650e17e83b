"""Keys come out in their order, whatever was added late, taken or sorted in between."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from mq.store.index import sorted_keys
from mq.store.index.sorted_keys import SortedKeys

KEYS = st.integers(0, 30).map("{:02}".format)


class LikeAList(RuleBasedStateMachine):
    """Beside a list that is sorted after each change."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = SortedKeys()
        self.model: list[str] = []

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.keys.add(key)
        self.model = sorted([*self.model, key])

    @rule(keys=st.lists(KEYS))
    def update(self, keys: list[str]) -> None:
        self.keys.update(keys)
        self.model = sorted([*self.model, *keys])

    @rule(limit=st.integers(0, 12))
    def take(self, limit: int) -> None:
        assert self.keys.take(limit) == self.model[:limit]
        del self.model[:limit]

    @rule(key=st.just("") | KEYS, limit=st.integers(0, 40))
    def look_behind(self, key: str, limit: int) -> None:
        found = [*islice(self.keys.behind(key), limit)]

        assert found == self.model[bisect_right(self.model, key) :][:limit]

    @invariant()
    def it_is_as_long_and_begins_alike(self) -> None:
        assert len(self.keys) == len(self.model)
        assert self.keys.first() == (self.model[0] if self.model else None)


@pytest.mark.parametrize(("late", "taken"), [(1, 1), (3, 5), (1000, 1000)])
def test_they_are_in_order_whatever_comes_and_goes(
    late: int, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_keys, "_MANY_LATE", late)
    monkeypatch.setattr(sorted_keys, "_MANY_TAKEN", taken)
    limits = settings(max_examples=200, stateful_step_count=40, deadline=None)

    run_state_machine_as_test(LikeAList, settings=limits)


class Compared(str):
    """A key that counts how often keys are compared."""

    times = 0

    def __lt__(self, other: str) -> bool:
        Compared.times += 1
        return str.__lt__(self, other)

    def __le__(self, other: str) -> bool:
        Compared.times += 1
        return str.__le__(self, other)


def comparisons_among(number: int) -> int:
    """Return how often keys are compared when that many are there, and one is added late, some are
    looked for and some taken."""
    keys = SortedKeys(Compared(f"{each:06}") for each in range(number))
    before = Compared.times
    keys.add(Compared("000000"))
    assert [*islice(keys.behind(Compared("000050")), 10)] == [
        f"{each:06}" for each in range(51, 61)
    ]
    assert len(keys.take(20)) == 20
    return Compared.times - before


def test_neither_a_look_nor_a_take_goes_through_all_keys() -> None:
    few, many = comparisons_among(100), comparisons_among(20_000)

    assert many - few < 30


def test_keys_that_were_taken_are_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_keys, "_MANY_TAKEN", 10)
    keys = SortedKeys(f"{number:04}" for number in range(100))

    taken = [key for _ in range(60) for key in keys.take(1)]

    assert taken == [f"{number:04}" for number in range(60)]
    assert len(keys._run) < 2 * len(keys)
