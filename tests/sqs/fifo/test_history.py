"""The judge of `test_kills.py` finds each kind of fault, and none where a request without an answer
may explain what was seen."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from tests.support.fifo_history import FifoChange, FifoGiven, FifoHistory, FifoOutcome, FifoSent

DONE, REFUSED, UNKNOWN = FifoOutcome.DONE, FifoOutcome.REFUSED, FifoOutcome.UNKNOWN
LEASE_SECONDS = 10.0


def sent(time: float, body: str, number: int = 0) -> FifoSent:
    """Answered half a second later, unless it got no number."""
    return FifoSent(time, time + 0.5, "a", body, f"id-{body}" if number else "", number)


def given(time: float, body: str, number: int, receive: int | None = None) -> FifoGiven:
    at = int(time) if receive is None else receive
    ended = time + 0.5
    return FifoGiven(at, time, ended, LEASE_SECONDS, "a", body, f"id-{body}", number, f"{body}{at}")


def asked(
    time: float, handle: str, outcome: FifoOutcome = DONE, seconds: float | None = None
) -> FifoChange:
    """A deletion, or a change of visibility. The handle is a body of one letter and the number of a
    receive."""
    return FifoChange(time, time + 0.5, handle[0], handle, seconds, outcome)


def good() -> FifoHistory:
    """Two messages of a group, one after the other."""
    return FifoHistory(
        [sent(0, "x", 1), sent(1, "y", 2)],
        [given(10, "x", 1), given(20, "y", 2)],
        [asked(15, "x10"), asked(25, "y20")],
    )


def change_nothing(history: FifoHistory) -> None:
    pass


def answer_nobody(history: FifoHistory) -> None:
    """The deletion may have been done before the next message came."""
    history.asked[0] = asked(15, "x10", UNKNOWN)


def send_again(history: FifoHistory) -> None:
    history.sent += [sent(2, "x"), sent(3, "x", 1)]


def answer_together(history: FifoHistory) -> None:
    history.given = [given(10, "x", 1), given(10, "y", 2)]
    history.asked = [asked(15, "x10"), asked(25, "y10")]


def give_again_after_a_lease(history: FifoHistory) -> None:
    history.given.insert(0, given(9 - LEASE_SECONDS + 0.6, "x", 1, 1))


def send_at_once(history: FifoHistory) -> None:
    """Numbers say the order of what is sent at the same time."""
    history.sent = [sent(0, "x", 1), sent(0.4, "y", 2)]


def show(history: FifoHistory) -> None:
    history.asked[:1] = [asked(11, "x10", DONE, 0), asked(15, "x12")]
    history.given.insert(1, given(12, "x", 1))


def shorten_without_an_answer(history: FifoHistory) -> None:
    """It may be done after the change that follows it."""
    history.asked[:1] = [asked(11, "x10", UNKNOWN, 1), asked(11.6, "x10", DONE, 30)]
    history.given.insert(1, given(14, "x", 1))
    history.asked.append(asked(19, "x14"))


def fail_late(history: FifoHistory) -> None:
    """A handle is refused when its lease may be over."""
    history.asked.append(asked(10 + LEASE_SECONDS, "x10", REFUSED))


def let_it_die(history: FifoHistory) -> None:
    history.may_leave["x"] = -math.inf
    del history.asked[0], history.given[0]


@pytest.mark.parametrize(
    "change",
    [change_nothing, answer_nobody, send_again, answer_together, give_again_after_a_lease,
     send_at_once, show, shorten_without_an_answer, fail_late, let_it_die],
)  # fmt: skip
def test_what_may_be_is_no_fault(change: Callable[[FifoHistory], None]) -> None:
    history = good()
    change(history)

    assert history.faults() == []
    assert history.is_over()


def lose(history: FifoHistory) -> None:
    del history.given[1], history.asked[1]


def refuse_the_only_deletion(history: FifoHistory) -> None:
    history.asked[1] = asked(20 + LEASE_SECONDS, "y20", REFUSED)


def come_back(history: FifoHistory) -> None:
    history.given.append(given(30, "x", 1))


def send_twice(history: FifoHistory) -> None:
    history.sent.append(sent(2, "x", 3))


def count_down(history: FifoHistory) -> None:
    history.sent = [sent(1, "x", 1), sent(0, "y", 2)]


def overtake(history: FifoHistory) -> None:
    history.asked[0] = asked(21, "x10")


def turn_around(history: FifoHistory) -> None:
    history.given = [given(10, "y", 2, 20), given(10, "x", 1, 20)]
    history.asked[0] = asked(15, "x20")


def give_an_earlier_one_later(history: FifoHistory) -> None:
    """It was there then, although its deletion had been asked for."""
    history.asked[0] = asked(15, "x10", UNKNOWN)
    history.given.append(given(21, "x", 1))


def give_two_at_once(history: FifoHistory) -> None:
    """A lease lasts until its end, and no deletion is asked for before."""
    history.given[1] = given(12, "y", 2)


def give_again_in_a_lease(history: FifoHistory) -> None:
    history.given.insert(1, given(12, "x", 1))


def prolong(history: FifoHistory) -> None:
    history.asked[0] = asked(30, "x22")
    history.asked.append(asked(11, "x10", DONE, 30))
    history.given = [given(10, "x", 1), given(22, "x", 1), given(35, "y", 2)]


def refuse(history: FifoHistory) -> None:
    history.asked.insert(0, asked(14, "x10", REFUSED))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("lost", lose),
        ("lost", refuse_the_only_deletion),
        ("back", come_back),
        ("twice", send_twice),
        ("number", count_down),
        ("overtaken", overtake),
        ("overtaken", turn_around),
        ("overtaken", give_an_earlier_one_later),
        ("in flight", give_two_at_once),
        ("in flight", give_again_in_a_lease),
        ("in flight", prolong),
        ("refused", refuse),
    ],
)
def test_each_kind_of_fault_is_found(kind: str, change: Callable[[FifoHistory], None]) -> None:
    history = good()
    change(history)

    assert kind in {fault.kind for fault in history.faults()}
