"""What was sent within the last five minutes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq.names import MessageId
from mq_sqs.fifo.deduplication import Deduplication, DeduplicationScope

FIRST, SECOND = MessageId("first"), MessageId("second")


def test_a_message_is_known_until_its_time_is_over_and_not_longer() -> None:
    known = Deduplication()
    known.accept(b"a", FIRST, 300.0, 0.0)

    assert known.find(b"a", 299.9) == FIRST
    assert known.find(b"b", 299.9) is None
    assert known.find(b"a", 300.0) is None
    assert len(known._ends) == 0


def test_of_two_the_first_counts_and_its_time_too() -> None:
    known = Deduplication()
    known.accept(b"a", FIRST, 300.0, 0.0)
    known.accept(b"a", SECOND, 500.0, 200.0)

    assert known.find(b"a", 299.0) == FIRST
    assert known.find(b"a", 301.0) is None


@pytest.mark.parametrize(
    ("scope", "is_same"), [(DeduplicationScope.QUEUE, True), (DeduplicationScope.GROUP, False)]
)
def test_an_id_counts_in_its_scope(scope: DeduplicationScope, is_same: bool) -> None:
    assert (scope.digest("a", "id") == scope.digest("b", "id")) is is_same
    assert scope.digest("a", "id") == scope.digest("a", "id")
    assert scope.digest("a", "id") != scope.digest("a", "other")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50)), max_size=40))
def test_any_sends_are_answered_as_a_list_would_answer_them(sends: list[tuple[int, int]]) -> None:
    """Each at its second, in the order of time; a message counts for ten seconds."""
    known, model, now = Deduplication(), dict[bytes, tuple[int, MessageId]](), 0

    for number, (name, step) in enumerate(sends):
        now += step
        digest, message_id = str(name).encode(), MessageId(f"m{number}")
        model = {each: sent for each, sent in model.items() if sent[0] > now}
        found = known.find(digest, now)

        assert found == (model[digest][1] if digest in model else None)

        if found is None:
            known.accept(digest, message_id, now + 10, now)
            model[digest] = (now + 10, message_id)
        assert len(known._ends) == len(model)


def test_a_message_that_is_told_twice_ends_no_later_one() -> None:
    known = Deduplication()
    known.accept(b"a", FIRST, 300.0, 0.0)
    known.accept(b"a", FIRST, 350.0, 0.0)
    assert known.find(b"a", 301.0) is None

    known.accept(b"a", SECOND, 601.0, 301.0)

    assert known.find(b"a", 351.0) == SECOND
    assert known.find(b"a", 601.0) is None


def test_what_many_sends_have_left_is_forgotten_in_pieces() -> None:
    """A send that comes after them does not wait for all of it."""
    known = Deduplication()
    for number in range(1000):
        known.accept(str(number).encode(), FIRST, 300.0, 0.0)

    assert known.find(b"999", 300.0) is None
    assert len(known._ends) > 900

    known.accept(b"999", SECOND, 600.0, 300.0)
    known.forget_old(300.0, 1000)

    assert known.find(b"999", 300.0) == SECOND
    assert len(known._ends) == 1
