"""What a client does with an answer, or without one, told without a server."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest

from mq.client import (
    Client,
    ClientError,
    Forbidden,
    NewMessage,
    NoAnswer,
    Refused,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
    by_id,
    moves,
    operations,
    publishing,
)
from mq.client.retries import (
    WORKER_BACKOFF_SECONDS,
    WORKER_PAUSE_SECONDS,
    Context,
    handling_backoff_seconds,
)
from mq.client.wire import LONGEST_SECONDS, Operation, ServerAnswer
from mq.config import CLIENT_BACKOFF_SECONDS
from tests.support.played import BUSY, COUNTS, GONE, ORDERS, Played, PlayedClock, answer, problem

CREATED = answer(201, x_message_id="echo")
WELCOME = answer(200, b"<html>")
"""What another web server answers, whatever it is asked."""


def test_a_publish_is_sent_again_under_the_same_id(context: Context, clock: PlayedClock) -> None:
    played = Played(
        publishing.publish(context, [ORDERS], NewMessage("one")), clock, GONE, BUSY, GONE, CREATED
    )

    assert len(played.requests) == 4
    assert len({request.headers["X-Message-Id"] for request in played.requests}) == 1
    assert {request.body for request in played.requests} == {b"one"}
    assert played.result == played.requests[0].headers["X-Message-Id"]


def test_a_batch_is_sent_again_as_it_was(context: Context, clock: PlayedClock) -> None:
    messages = [NewMessage("one"), NewMessage("two")]

    played = Played(
        publishing.publish_many(context, [ORDERS], messages),
        clock,
        GONE,
        GONE,
        answer(201, b"echo"),
    )

    assert len({request.body for request in played.requests}) == 1
    assert played.result == [
        json.loads(line)["id"] for line in played.requests[0].body.splitlines()
    ]


def test_pauses_grow_with_some_chance_in_them(context: Context, clock: PlayedClock) -> None:
    with pytest.raises(NoAnswer):
        Played(operations.count(context, ORDERS), clock, GONE)
    assert clock.now > 1050

    runs = []
    for _ in range(20):
        clock.now = 0.0
        runs.append(Played(operations.count(context, ORDERS), clock, *[GONE] * 9, COUNTS).pauses)
    first, longest = CLIENT_BACKOFF_SECONDS
    for pauses in runs:
        for number, pause in enumerate(pauses):
            whole = min(first * 2**number, longest)
            assert whole / 2 <= pause <= whole
    assert len({tuple(pauses) for pauses in runs}) == len(runs)


def test_retry_after_is_waited_for(context: Context, clock: PlayedClock) -> None:
    played = Played(operations.count(context, ORDERS), clock, BUSY, BUSY, COUNTS)

    assert played.pauses == [7, 7]


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_what_a_proxy_says_is_tried_again_too(
    context: Context, clock: PlayedClock, status: int
) -> None:
    played = Played(operations.count(context, ORDERS), clock, answer(status, b"<html>"), COUNTS)

    assert len(played.requests) == 2


def test_after_the_retry_time_the_last_error_is_raised(
    context: Context, clock: PlayedClock
) -> None:
    with pytest.raises(Unavailable) as caught:
        Played(operations.count(context, ORDERS), clock, GONE, BUSY)

    assert caught.value.retry_after_seconds == 7
    assert caught.value.problem is not None
    assert caught.value.problem.detail == "why unavailable"
    assert 1000 + 60 - 7 <= clock.now < 1000 + 60


def test_without_retry_time_nothing_is_sent_twice(context: Context, clock: PlayedClock) -> None:
    for given, error in ((GONE, NoAnswer), (BUSY, Unavailable)):
        with pytest.raises(error):
            Played(operations.count(context._replace(retry_seconds=0), ORDERS), clock, given)
    assert clock.now == 1000


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (problem(401, "unauthorized"), Unauthorized),
        (problem(403, "forbidden"), Forbidden),
        (problem(405, "method-not-allowed"), Refused),
        (problem(500, "defect"), Refused),
        (answer(500, b"<html>"), UnexpectedAnswer),
        (answer(301, location="https://elsewhere"), UnexpectedAnswer),
        (answer(404, b'{"detail": "nothing here"}'), UnexpectedAnswer),
        (answer(404, b"[]"), UnexpectedAnswer),
    ],
)
def test_what_would_fail_again_is_not_sent_again(
    context: Context, clock: PlayedClock, given: ServerAnswer, error: type[ClientError]
) -> None:
    with pytest.raises(error) as caught:
        Played(operations.count(context, ORDERS), clock, given)

    assert clock.now == 1000
    assert caught.value.problem is not None
    assert caught.value.problem.status == given.status


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (lambda context: publishing.publish(context, [ORDERS], NewMessage("x")), answer(201)),
        (lambda context: operations.count(context, ORDERS), answer(200, b"<html>")),
        (lambda context: operations.count(context, ORDERS), answer(200, b"{}")),
        (lambda context: operations.receive(context, [ORDERS], 0, None), answer(200, b"hello")),
        (lambda context: operations.receive_many(context, [ORDERS], 9, 0, None), answer(200, b"x")),
        (
            lambda context: operations.receive_many(context, [ORDERS], 9, 0, None),
            answer(200, b"{}"),
        ),
        (lambda context: operations.peek(context, ORDERS, 9, None), answer(200, b'{"id": "1"}')),
        (
            lambda context: publishing.publish_many(context, [ORDERS], [NewMessage("x")]),
            answer(201),
        ),
        (lambda context: publishing.publish_many(context, [ORDERS], [NewMessage("x")]), WELCOME),
        (lambda context: by_id.remove(context, ORDERS, "1"), WELCOME),
        (lambda context: by_id.acknowledge_many(context, ORDERS, {"1": "2"}), WELCOME),
        (lambda context: moves.move_many(context, ORDERS, ORDERS, ["1"], None), WELCOME),
    ],
)
def test_success_of_somebody_else_is_none(
    context: Context,
    clock: PlayedClock,
    make: Callable[[Context], Operation[object]],
    given: ServerAnswer,
) -> None:
    with pytest.raises(UnexpectedAnswer):
        Played(make(context), clock, given)


def test_a_failed_message_waits_longer_each_time() -> None:
    first, longest = WORKER_BACKOFF_SECONDS

    for count, whole in (
        (None, first),
        (1, first),
        (2, 2 * first),
        (5, 16 * first),
        (10**9, longest),
    ):
        assert whole / 2 <= handling_backoff_seconds(count) <= whole


def busy_until(retry_after: str) -> ServerAnswer:
    date = "Mon, 23 Nov 2026 19:50:00 GMT"
    return problem(503, "unavailable", retry_after=retry_after, date=date)


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("Mon, 23 Nov 2026 19:50:09 GMT", 9),
        ("Mon Nov 23 19:50:09 2026", 9),
        ("9 ", 9),
        ("Mon, 23 Nov 2026 19:40:00 GMT", None),
        ("soon", None),
        ("-9", None),
        ("", None),
    ],
)
def test_retry_after_may_be_a_time(
    context: Context, clock: PlayedClock, retry_after: str, seconds: float | None
) -> None:
    """It is a time by the `Date` of the answer. A client does not wait for one that is over."""
    played = Played(operations.count(context, ORDERS), clock, busy_until(retry_after), COUNTS)

    (pause,) = played.pauses
    assert pause == seconds if seconds is not None else pause <= CLIENT_BACKOFF_SECONDS[0]


@pytest.mark.parametrize("far", ["9" * 12, "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_server_that_asks_to_wait_for_centuries_is_asked_again_in_a_year(
    context: Context, clock: PlayedClock, far: str
) -> None:
    """No thread can wait for longer than 292 years."""
    poll = operations.poll(context, [ORDERS], 20, None)

    played = Played(poll, clock, busy_until(far))

    assert played.pauses == [WORKER_PAUSE_SECONDS, LONGEST_SECONDS]


def test_the_first_retry_names_the_server_and_the_cause(
    context: Context, clock: PlayedClock, caplog: pytest.LogCaptureFixture
) -> None:
    Played(operations.count(context, ORDERS), clock, answer(502, b"<html>"), COUNTS)

    assert caplog.messages == [
        "http://localhost: 502 Reason, without a reason (502); trying again for up to 60 s"
    ]


@pytest.mark.parametrize(
    "times",
    [
        {"timeout_seconds": 0},
        {"timeout_seconds": -1.0},
        {"timeout_seconds": math.nan},
        {"timeout_seconds": math.inf},
        {"timeout_seconds": 1e10},
        {"retry_seconds": -1},
        {"retry_seconds": math.nan},
    ],
)
def test_times_that_make_no_sense_are_refused_at_once(
    connect_client: Callable[..., Client], times: dict[str, float]
) -> None:
    with pytest.raises(ValueError, match=next(iter(times))):
        connect_client("http://localhost", **times)


def test_a_client_may_try_for_ever(connect_client: Callable[..., Client]) -> None:
    connect_client("http://localhost", retry_seconds=math.inf)
