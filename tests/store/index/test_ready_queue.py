"""The index of one queue, in memory: the right order, whatever comes and goes meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq.ids import order_key
from mq.spool.queue.listing import Listing
from mq.store.index.ready_queue import ReadyQueue
from tests.support.messages import new_id

keys = st.builds(order_key, st.text("ab-", min_size=1, max_size=3), st.integers(0, 3))


@given(st.lists(keys, unique_by=lambda key: key[24:]), st.sets(st.integers(0, 30)))
def test_what_is_left_comes_out_oldest_first(added: list[str], dropped: set[int]) -> None:
    ready = ReadyQueue()
    for key in added:
        ready.add(key)
        ready.add(key)
    left = [key for number, key in enumerate(added) if number not in dropped]
    for key in set(added) - set(left):
        ready.discard(key[24:])
        ready.discard(key[24:])

    assert len(ready) == len(left)
    assert [ready.pop() for _ in left] == [key[24:] for key in sorted(left)]
    assert ready.pop() is None


def test_entry_that_came_back_with_another_time_stands_at_its_new_place() -> None:
    ready = ReadyQueue()
    ready.add(order_key("first", 1))
    ready.add(order_key("second", 2))
    ready.discard("first")
    ready.add(order_key("first", 3))

    assert [ready.pop(), ready.pop(), ready.pop()] == ["second", "first", None]


@pytest.mark.parametrize("limit", [0, 1, 3, 5, 9])
def test_several_are_popped_in_the_order_in_which_each_would_be(limit: int) -> None:
    alone, together = IndexFollower(), IndexFollower()
    for told in (alone, together):
        for number in (4, 1, 3, 0, 2, 5):
            told.ready.add(order_key(str(number), number))
        told.ready.discard_all(["nowhere", "1"])
        told.ready.add(order_key("1", 9))
        told.ready.discard("3")

    one_by_one = [each for _ in range(limit) if (each := alone.ready.pop()) is not None]

    assert together.ready.pop_some(limit) == one_by_one == ["0", "2", "4", "5", "1"][:limit]
    assert together.gone == alone.gone
    assert len(together.ready) == len(alone.ready) == max(0, 5 - limit)


class IndexFollower:
    """An index, and the messages that it says have gone."""

    def __init__(self) -> None:
        self.gone: list[str] = []
        self.ready = ReadyQueue()
        self.ready.follow(self)

    def came(self, key: str) -> None:
        pass

    def went(self, message_id: str) -> None:
        self.gone.append(message_id)


@pytest.mark.parametrize("discard", [ReadyQueue.discard, lambda it, name: it.discard_all([name])])
def test_what_left_while_a_listing_ran_does_not_come_back_with_it(
    discard: Callable[[ReadyQueue, str], None],
) -> None:
    ready = ReadyQueue()
    known, listed = order_key("known", 1), order_key("listed", 2)
    ready.add(known)

    ready.begin_listing()
    ready.pop()
    discard(ready, "listed")
    ready.end_listing(Listing(1, 1, 0.0, [known, listed, order_key("new", 3)], []))

    assert [ready.pop(), ready.pop()] == ["new", None]


def test_what_left_and_came_back_while_a_listing_ran_is_there_once() -> None:
    ready = ReadyQueue()
    key = order_key("again", 1)
    ready.add(key)

    ready.begin_listing()
    ready.discard("again")
    ready.add(key)
    ready.end_listing(Listing(1, 1, 0.0, [key], []))

    assert [ready.pop(), ready.pop()] == ["again", None]


def test_what_a_listing_misses_is_dropped_unless_it_came_back_meanwhile() -> None:
    """Nobody told the index that it left."""
    ready = ReadyQueue()
    ids = ["left", "popped", "restored", "added"]
    for at, each in enumerate(ids):
        ready.add(order_key(each, at))

    ready.begin_listing()
    for each in ("restored", "popped"):
        ready.discard(each)
    ready.restore(order_key("restored", 2))
    ready.add(order_key("added", 3))
    ready.end_listing(Listing(1, 1, 0.0, [], ids))

    assert list(ready) == ["added", "restored"]
    assert ready.pop_some(9) == ["restored", "added"]


def test_what_is_behind_a_place_is_found_in_order_whatever_came_and_went() -> None:
    ready = ReadyQueue()
    ids = [new_id() for _ in range(20)]
    for message_id in ids[::-1]:
        ready.add(message_id)
    ready.discard(ids[5])
    ready.add(ids[5])
    for message_id in (ids[0], ids[7]):
        ready.discard(message_id)

    assert ready.behind(ids[0], 3) == ids[1:4]
    assert ready.behind(ids[4], 100) == [*ids[5:7], *ids[8:]]
    assert ready.behind(ids[-1], 1) == []
    assert ready.pop() == ids[1]
    assert ready.behind("", 2) == ids[2:4]
