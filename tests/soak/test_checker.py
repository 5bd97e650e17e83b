"""The checker finds each fault that is planted in a good history, and nothing in a good one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.soak.checker import judge
from tests.soak.history import SECOND_NS, Event, Given, read_lines

History = list[Event]
Plant = Callable[[History, list[Given]], object]


def published(number: int, at: float, delay: float = 0.0, status: int | None = 201) -> Event:
    message_id = f"id-{number}" if status is not None else ""
    return Event("publish", ns(at), ns(at + 0.01), status, message_id, f"t{number}", seconds=delay)


def received(number: int, at: float, lease: str, seconds: float = 2.0) -> Event:
    given = Given(f"id-{number}", f"t{number}", lease)
    return Event("receive", ns(at), ns(at + 0.01), 200, seconds=seconds, given=[given])


def guarded(kind: str, number: int, at: float, lease: str, status: int | None = 202) -> Event:
    seconds = 2.0 if kind == "renew" else 0.0
    return Event(kind, ns(at), ns(at + 0.01), status, f"id-{number}", "", lease, seconds)


def ns(seconds: float) -> int:
    return int(seconds * SECOND_NS)


def good() -> tuple[History, list[Given]]:
    history = [published(number, number / 10) for number in range(6)]
    history += [
        published(6, 0.7, delay=1.5),
        published(7, 0.8, status=None),
        received(0, 1.0, "a"),
        received(1, 1.1, "b"),
        guarded("renew", 1, 2.0, "b", 200),
        guarded("remove", 0, 1.2, "a"),
        received(2, 1.3, "c"),
        guarded("release", 2, 1.4, "c", 204),
        received(2, 1.5, "d"),
        received(3, 1.6, "e", seconds=0.5),
        received(3, 2.3, "f"),
        guarded("remove", 3, 2.4, "e", 412),
        guarded("remove", 3, 2.5, "f"),
        received(6, 2.6, "g"),
        received(1, 4.1, "h"),
    ]
    left = [Given(f"id-{number}", f"t{number}", "z") for number in (1, 2, 4, 5, 6)]
    return history, left


def kinds(history: History, left: list[Given]) -> set[str]:
    return {violation.kind for violation in judge(history, left)}


def test_nothing_is_found_in_a_good_history() -> None:
    assert judge(*good()) == []


def test_what_was_not_answered_may_be_there_or_not() -> None:
    history, left = good()

    assert judge(history, [*left, Given("id-7", "t7", "z")]) == []


def under_an_old_lease(kind: str) -> Plant:
    return lambda history, left: history.append(guarded(kind, 3, 2.45, "e", 200))


PLANTS: dict[str, dict[str, Plant]] = {
    "lost": {
        "at the end": lambda history, left: left.pop(),
        "given out and not removed": lambda history, left: left.pop(0),
    },
    "phantom": {
        "at the end": lambda history, left: left.append(Given("id-9", "t9", "z")),
        "given out": lambda history, left: history.append(received(9, 3.0, "x")),
    },
    "torn": {
        "at the end": lambda history, left: left.__setitem__(0, Given("id-1", None, "z")),
        "another's body": lambda history, left: left.__setitem__(0, Given("id-1", "t2", "z")),
        "given out": lambda history, left: history.append(
            Event("receive", ns(5), ns(5.1), 200, seconds=1.0, given=[Given("id-4", None, "x")])
        ),
    },
    "doubled": {
        "under a lease": lambda history, left: history.append(received(1, 1.5, "x")),
        "under a renewed lease": lambda history, left: history.append(received(1, 3.5, "x")),
        "at the same time": lambda history, left: history.append(received(1, 1.105, "x")),
        "at the end": lambda history, left: left.append(left[0]),
    },
    "early": {
        "before its delay was over": lambda history, left: history.append(received(6, 1.9, "x")),
    },
    "reordered": {
        "the later one first": lambda history, left: history.append(received(5, 2.0, "x")),
    },
    "resurrected": {
        "given out": lambda history, left: history.append(received(0, 6.0, "x")),
        "at the end": lambda history, left: left.append(Given("id-0", "t0", "z")),
    },
    "stale lease": {kind: under_an_old_lease(kind) for kind in ("remove", "renew", "release")},
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

    assert judge(history, left) == []


def test_who_was_not_answered_may_have_what_seems_to_be_passed_over() -> None:
    history, left = good()
    [plant] = PLANTS["reordered"].values()
    plant(history, left)

    history.append(Event("receive", ns(1.7), ns(1.8), None, seconds=2.0))

    assert "reordered" not in kinds(history, left)


def test_a_history_is_read_as_it_was_written() -> None:
    history, _ = good()

    assert list(read_lines(event.to_line() for event in history)) == history
