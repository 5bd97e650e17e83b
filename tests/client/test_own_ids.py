"""The ids that a client makes up, and whose clock they follow."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from email.utils import formatdate
from uuid import UUID

import pytest

from mq.client import publishing
from mq.client.messages import NewMessage
from mq.client.own_ids import OwnIds
from mq.client.retries import Context
from tests.support.played import ORDERS, PlayedClock, answer

_NS = 1_000_000_000
NOW = 1_800_000_000


class WallClock:
    def __init__(self) -> None:
        self.seconds = float(NOW)

    def __call__(self) -> int:
        return int(self.seconds * _NS)


@pytest.fixture
def wall() -> WallClock:
    return WallClock()


@pytest.fixture
def ids(wall: WallClock) -> OwnIds:
    return OwnIds(wall)


def seconds_of(message_id: str) -> float:
    return int(message_id[:13].replace("-", ""), 16) / 1000


def http_date(seconds: float) -> str:
    return formatdate(int(seconds), usegmt=True)


def test_ids_increase() -> None:
    ids = OwnIds()
    made = [ids.next() for _ in range(1000)]
    assert made == sorted(set(made))
    assert {UUID(each).version for each in made} == {7}
    assert [str(UUID(each)) for each in made] == made


@pytest.mark.parametrize("hours", [5, -5])
def test_ids_follow_the_clock_of_a_server_that_is_far_off(
    ids: OwnIds, wall: WallClock, hours: int
) -> None:
    ids.hear(http_date(wall.seconds + 3600 * hours), 0.01, 0.0)

    assert abs(seconds_of(ids.next()) - wall.seconds - 3600 * hours) < 1


def test_a_date_that_was_read_late_says_nothing_of_the_clock(ids: OwnIds, wall: WallClock) -> None:
    """The head came long ago, or came late: a blocked loop, a long download, a long poll."""
    date = http_date(wall.seconds)
    wall.seconds += 100
    first = ids.next()

    ids.hear(date, 100.0, 99.9)
    assert 0 <= seconds_of(ids.next()) - seconds_of(first) < 0.1
    ids.hear(http_date(wall.seconds - 50), 100.0, 0.0)
    assert 0 <= seconds_of(ids.next()) - seconds_of(first) < 0.1
    ids.hear(http_date(wall.seconds), 100.0, 0.0)
    assert 0 <= seconds_of(ids.next()) - seconds_of(first) < 0.1


def test_no_correction_goes_below_the_last_id(ids: OwnIds, wall: WallClock) -> None:
    made = [ids.next()]
    for seconds in (3600, -3600, 172_800, -172_800, 0):
        ids.hear(http_date(wall.seconds + seconds), 0.01, 0.0)
        made += [ids.next(), ids.next()]
        wall.seconds -= 10
        made.append(ids.next())

    assert made == sorted(set(made))


def test_what_is_no_date_is_not_heard(ids: OwnIds, wall: WallClock) -> None:
    for date in (None, "no date", "", f"Mon, 23 Nov {10**20} 16:00:00 GMT"):
        ids.hear(date, 0.0, 0.0)
    assert abs(seconds_of(ids.next()) - wall.seconds) < 0.1


def test_an_answer_is_heard_for_the_time_that_it_was_under_way(
    context: Context, clock: PlayedClock, wall: WallClock
) -> None:
    """Three requests: the answer to the first is read so late that its date is long past."""
    ids = OwnIds(wall)
    context = context._replace(ids=ids)
    made = []
    for late in (30.0, 0.0, 0.0):
        sending = publishing.publish(context, [ORDERS], NewMessage("x"))
        request = next(sending)
        date, came_at = http_date(wall.seconds), clock.now
        clock.now += late
        wall.seconds += late
        made.append(request.headers["X-Message-Id"])  # type: ignore[union-attr]
        told = answer(201, x_message_id=made[-1], date=date)._replace(came_at=came_at)
        with pytest.raises(StopIteration):
            sending.send(told)
        made.append(ids.next())

    assert made == sorted(set(made))
    assert abs(seconds_of(made[-1]) - wall.seconds) < 0.1


def test_hearing_and_making_ids_in_many_threads_keeps_the_order(ids: OwnIds) -> None:
    made: list[list[str]] = [[] for _ in range(4)]
    stop = threading.Event()

    def hear() -> None:
        for number in itertools.cycle((3600, -3600, 0, 86_400)):
            if stop.is_set():
                break
            ids.hear(http_date(NOW + number), 0.01, 0.0)

    def make(into: list[str]) -> None:
        into.extend(ids.next() for _ in range(3000))

    hearers = [threading.Thread(target=hear) for _ in range(2)]
    makers = [threading.Thread(target=make, args=(each,)) for each in made]
    for thread in hearers + makers:
        thread.start()
    for thread in makers:
        thread.join()
    stop.set()
    for thread in hearers:
        thread.join()

    for each in made:
        assert each == sorted(each)
    assert len(set(itertools.chain(*made))) == 12_000


def test_a_child_makes_other_ids_than_its_parent_behind_those_that_were_there(
    ids: OwnIds,
) -> None:
    """Though the parent had its lock."""
    before = ids.next()
    reading, writing = os.pipe()
    with ids._lock:
        pid = os.fork()
        if pid == 0:
            try:
                signal.alarm(30)
                os.write(writing, ids.next().encode())
            finally:
                os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        of_child = pipe.read()
    os.waitpid(pid, 0)

    of_parent = ids.next()
    assert before < of_child
    assert before < of_parent != of_child
