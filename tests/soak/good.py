"""A history in which nothing is wrong, and what others are made of."""

from __future__ import annotations

from collections.abc import Iterable

from mq.names import QueueName
from mq.spool.queue.queue_settings import DeadLetterRule
from tests.soak.checker import SoakViolation, judge
from tests.soak.history import SECOND_NS, Event, Given, left_there

History = list[Event]

ORDERS, LETTERS = "orders", "letters"
DYING, DEAD, ENDED = "dying", "dying.dead", "ended"
BRIEF = "brief"


def published(number: int, at: float, delay: float = 0.0, status: int | None = 201) -> Event:
    message_id = f"id-{number}" if status == 201 else ""
    given = [Given(message_id, f"t{number}")]
    return Event("publish", ns(at), ns(at + 0.01), status, ORDERS, delay, given)


def received(
    number: int, at: float, lease: str, seconds: float = 2.0, token: str | None = None
) -> Event:
    event = received_all([(number, lease)], at, seconds)
    if token is not None:
        event.given = [Given(f"id-{number}", token, lease)]
    return event


def received_all(which: list[tuple[int, str]], at: float, seconds: float = 2.0) -> Event:
    given = [Given(f"id-{number}", f"t{number}", lease) for number, lease in which]
    return Event("receive", ns(at), ns(at + 0.01), 200, ORDERS, seconds, given)


def guarded(kind: str, number: int | str, at: float, lease: str, status: int | None = 202) -> Event:
    seconds = 2.0 if kind == "renew" else 0.0
    given = [Given(f"id-{number}", "", lease)]
    return Event(kind, ns(at), ns(at + 0.01), status, ORDERS, seconds, given)


def purged(at: float, status: int | None = 200) -> Event:
    return Event("purge", ns(at), ns(at + 0.01), status, ORDERS)


def batch(numbers: Iterable[int], at: float, status: int | None = 201) -> Event:
    given = [Given(f"id-{number}" if status == 201 else "", f"t{number}") for number in numbers]
    return Event("publish", ns(at), ns(at + 0.01), status, ORDERS, 0.0, given)


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
    return {violation.kind for violation in judged(history, left)}


def judged(history: History, left: list[Given], keep_seconds: float = 60) -> list[SoakViolation]:
    dead_letters = {DYING: DeadLetterRule(3, (QueueName(DEAD), QueueName(ENDED)))}
    return judge(
        [*history, left_there(left, ORDERS)], {ORDERS}, keep_seconds, dead_letters=dead_letters,
        prompt={ORDERS, LETTERS}, copied={DYING}, ttl={BRIEF: 2.0},
    )  # fmt: skip
