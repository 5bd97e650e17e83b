"""The checker finds each fault that is planted in a good history, and nothing in a good one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.soak.good import (
    BRIEF,
    DYING,
    ORDERS,
    History,
    batch,
    good,
    guarded,
    judged,
    kinds,
    ns,
    published,
    purged,
    received,
    received_all,
)
from tests.soak.history import Event, Given, read_lines

Plant = Callable[[History, list[Given]], object]


def test_nothing_is_found_in_a_good_history() -> None:
    assert judged(*good()) == []


def test_what_was_not_answered_may_be_there_or_not() -> None:
    history, left = good()

    assert judged(history, [*left, Given("id-7", "t7", "z")]) == []


def test_what_comes_within_its_ttl_or_never_again_is_as_it_may_be() -> None:
    history, left = good()
    history += [replace(each, queue=BRIEF) for each in (published(8, 3.0), received(8, 4.9, "x"))]

    assert judged(history, left) == []


def test_what_has_a_time_ahead_of_a_clock_that_was_set_back_is_not_too_old() -> None:
    history, left = good()
    history += [Event("clock", ns(at), ns(at), seconds=ahead) for at, ahead in ((2.7, 9), (2.8, 0))]
    history += [replace(each, queue=BRIEF) for each in (published(8, 3.0), received(8, 5.2, "x"))]

    assert judged(history, left) == []


def test_copies_of_which_one_does_not_say_where_it_died_are_not_judged() -> None:
    history, left = good()
    for reader in ("bills", "kitchen"):
        history.append(replace(published(8, 3.0), queue=reader))
        history[-1].given = [Given(f"{reader}/id-8", f"{reader}/t8")]
    there = [Given("bills/id-8", "bills/t8", "z"), Given("unclear/id-8", "unclear/t8", "z")]

    assert judged(history, [*left, *there]) == []
    assert "lost" in kinds(history, [*left, there[0]])


def test_what_a_purge_may_have_removed_is_not_lost() -> None:
    history, _ = good()
    history.append(purged(4.5))

    assert judged(history, []) == []


def test_what_was_published_after_a_purge_is_not_its() -> None:
    history, _ = good()
    history += [purged(4.5), published(9, 5.0)]

    assert kinds(history, []) == {"lost"}


def test_a_delete_whose_lease_was_over_removes_nothing() -> None:
    history, left = good()
    history += [guarded("delete", 3, 2.45, "e"), guarded("delete", 1, 5.0, "b")]

    assert judged(history, left) == []


def test_an_own_id_that_is_sent_again_once_it_is_forgotten_is_a_new_message() -> None:
    history, left = good()
    history.append(published(0, 30.0))
    history.append(received(0, 31.0, "x"))
    history.append(guarded("remove", 0, 31.5, "x"))
    assert kinds(history, left) == {"resurrected"}

    assert judged(history, left, keep_seconds=20) == []


def under_an_old_lease(kind: str) -> Plant:
    return lambda history, left: history.append(guarded(kind, 3, 2.45, "e", 200))


def parted_at_the_end(history: History, left: list[Given]) -> None:
    history.append(batch(range(20, 23), 3.0, 503))
    left.append(Given("id-200", "t22", "z"))


PLANTS: dict[str, dict[str, Plant]] = {
    "lost": {
        "at the end": lambda history, left: left.pop(),
        "given out and not removed": lambda history, left: left.pop(0),
        "its removal was refused": lambda history, left: history.append(
            guarded("remove", left.pop().message_id[-1], 4.5, "g", 412)
        ),
        "given out though its publish was not answered": lambda history, left: history.append(
            received(70, 3.0, "x", token="t7")
        ),
        "deleted under a lease that was replaced": lambda history, left: history.append(
            guarded("delete", left.pop(0).message_id[-1], 5.0, "b")
        ),
        "stored anew under an own id": lambda history, left: history.append(published(0, 90.0)),
        "stored anew after a purge": lambda history, left: history.extend(
            [published(9, 4.4), purged(4.5), published(9, 90.0)]
        ),
        "given out again after a removal without an answer": lambda history, left: history.extend(
            [guarded("remove", left.pop(0).message_id[-1], 3.0, "b", None)]
        ),
        "given out after a purge": lambda history, left: history.extend(
            [published(9, 4.495), purged(4.5), received(9, 5.0, "x")]
        ),
    },
    "phantom": {
        "at the end": lambda history, left: left.append(Given("id-9", "t9", "z")),
        "given out": lambda history, left: history.append(received(9, 3.0, "x")),
    },
    "torn": {
        "at the end": lambda history, left: left.__setitem__(0, Given("id-1", None, "z")),
        "another's body": lambda history, left: left.__setitem__(0, Given("id-1", "t2", "z")),
        "given out": lambda history, left: history.append(
            Event("receive", ns(5), ns(5.1), 200, ORDERS, 1.0, [Given("id-4", None, "x")])
        ),
    },
    "doubled": {
        "under a lease": lambda history, left: history.append(received(1, 1.5, "x")),
        "under a renewed lease": lambda history, left: history.append(received(1, 3.5, "x")),
        "at the same time": lambda history, left: history.append(received(1, 1.105, "x")),
        "at the end": lambda history, left: left.append(left[0]),
        "under the same lease": lambda history, left: history.append(received(1, 1.5, "b")),
        "in one answer": lambda history, left: history.append(
            received_all([(4, "x"), (4, "x")], 5.0)
        ),
        "under an id of its own": lambda history, left: left.append(Given("id-40", "t4", "z")),
        "under two ids without an answer": lambda history, left: left.extend(
            [Given("id-70", "t7", "z"), Given("id-71", "t7", "z")]
        ),
        "given out though its publish was refused": lambda history, left: history.extend(
            [published(8, 4.0, status=400), received(80, 5.0, "x", token="t8")]
        ),
    },
    "early": {
        "before its delay was over": lambda history, left: history.append(received(6, 1.9, "x")),
    },
    "too old": {
        "when it was asked for": lambda history, left: history.extend(
            replace(each, queue=BRIEF) for each in (published(8, 3.0), received(8, 5.2, "x"))
        ),
    },
    "reordered": {
        "the later one first": lambda history, left: history.append(received(5, 2.0, "x")),
        "in one answer": lambda history, left: history.append(
            received_all([(5, "x"), (4, "y")], 2.0)
        ),
        "of one batch": lambda history, left: history.extend(
            [batch(range(20, 23), 3.0), received_all([(20, "x"), (22, "y"), (21, "z")], 3.1)]
        ),
    },
    "resurrected": {
        "given out": lambda history, left: history.append(received(0, 6.0, "x")),
        "at the end": lambda history, left: left.append(Given("id-0", "t0", "z")),
        "after a delete under its lease": lambda history, left: history.extend(
            [guarded("delete", 1, 2.2, "b"), received(1, 4.2, "x")]
        ),
        "after a purge": lambda history, left: history.extend([purged(4.5), received(4, 5.0, "x")]),
        "renewed": lambda history, left: history.append(guarded("renew", 0, 1.5, "a", 200)),
        "released": lambda history, left: history.append(guarded("release", 0, 1.5, "a", 204)),
    },
    "parted": {
        "one of three": lambda history, left: history.extend(
            [batch(range(20, 23), 3.0, None), received(200, 3.1, "x", token="t20")]
        ),
        "one of three at the end": parted_at_the_end,
        "one of two queues": lambda history, left: history.extend(
            [
                batch([20], 3.0, None),
                replace(batch([21], 3.0, None), queue=DYING),
                received(200, 3.1, "x", token="t20"),
            ]
        ),
    },
    "defect": {
        "a receive": lambda history, left: history.append(
            Event("receive", ns(5), ns(5.1), 500, ORDERS)
        ),
    },
    "stale lease": {
        kind: under_an_old_lease(kind) for kind in ("remove", "renew", "release", "move")
    },
}


@pytest.mark.parametrize(
    ("kind", "plant"),
    [pytest.param(kind, plant, id=f"{kind} {name}")
     for kind, plants in PLANTS.items() for name, plant in plants.items()],
)  # fmt: skip
def test_a_planted_fault_is_found(kind: str, plant: Plant) -> None:
    history, left = good()

    plant(history, left)

    assert kind in kinds(history, left)


def test_a_step_of_the_clock_may_end_a_lease_and_a_delay() -> None:
    history, left = good()
    history += [received(4, 4.2, "x"), received(4, 4.4, "y")]
    history += [published(8, 3.0, delay=2.0), received(8, 4.5, "z")]
    left.append(Given("id-8", "t8", "z"))
    assert kinds(history, left) == {"doubled", "early"}

    history.append(Event("clock", ns(4.25), ns(4.26), seconds=3600))

    assert judged(history, left) == []


def test_who_was_not_answered_may_have_what_seems_to_be_passed_over() -> None:
    history, left = good()
    PLANTS["reordered"]["the later one first"](history, left)

    history.append(Event("receive", ns(1.7), ns(1.8), None, ORDERS, 2.0))

    assert "reordered" not in kinds(history, left)


def test_what_a_full_disk_kept_on_its_way_comes_later() -> None:
    history, left = good()
    PLANTS["reordered"]["the later one first"](history, left)
    history.append(Event("fault", ns(0.3), ns(0.5), queue="syncs fail"))
    assert "reordered" in kinds(history, left)

    history.append(Event("fault", ns(0.3), ns(0.5), queue="disk full"))

    assert "reordered" not in kinds(history, left)


def test_who_was_answered_late_may_have_given_back_what_seems_to_be_passed_over() -> None:
    """The disk was slow: the lease of what it had taken first was over before that was durable."""
    history, left = good()
    PLANTS["reordered"]["the later one first"](history, left)
    history.append(Event("receive", ns(1.9), ns(2.3), 204, ORDERS, 0.5))
    assert "reordered" in kinds(history, left)

    history.append(Event("receive", ns(1.9), ns(2.4), 204, ORDERS, 0.5))

    assert "reordered" not in kinds(history, left)


def test_what_was_taken_is_hidden_until_the_clock_shows_its_stamp() -> None:
    """The clock was an hour ahead then, and is set back, and back once more."""
    history, left = good()
    history += [
        Event("clock", ns(1.65), ns(1.66), seconds=3600),
        Event("receive", ns(1.7), ns(1.8), None, ORDERS, 2.0),
        Event("clock", ns(2.7), ns(2.8), seconds=0),
        Event("clock", ns(40), ns(40.1), seconds=-3600),
        Event("clock", ns(60), ns(60.1), seconds=0),
        published(20, 70.0),
        received(20, 71.0, "x"),
    ]
    left.append(Given("id-20", "t20", "z"))
    assert judged(history, left) == []

    history += [
        Event("clock", ns(80), ns(80.1), seconds=3600),
        published(21, 95.0),
        received(21, 96.0, "y"),
    ]
    left.append(Given("id-21", "t21", "z"))
    assert [(each.kind, each.message_id) for each in judged(history, left)] == [
        ("reordered", "id-21")
    ]


def test_a_history_is_read_as_it_was_written() -> None:
    history, _ = good()

    assert list(read_lines(event.to_line() for event in history)) == history
