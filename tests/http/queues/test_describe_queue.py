"""4.2 GET /QUEUE"""

from __future__ import annotations

import time

import pytest

from tests.support.processes import wait_until
from tests.support.wire import Wire, assert_problem, make_queue


def test_an_empty_queue_is_described_by_zeros(wire: Wire, queue: str) -> None:
    answer = wire.request("GET", f"/{queue}")

    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "queue": queue,
        "ready": 0,
        "leased": 0,
        "delayed": 0,
        "oldest_age_seconds": None,
        "settings": {},
    }


def test_messages_are_counted_by_state(wire: Wire, queue: str) -> None:
    for _ in range(5):
        wire.publish(queue)
    removed, _ = wire.receive(queue), wire.receive(queue)
    wire.remove(queue, removed.headers["x-message-id"])

    info = wire.request("GET", f"/{queue}").json()

    assert (info["ready"], info["leased"], info["delayed"]) == (3, 1, 0)


def test_other_queues_are_not_counted(wire: Wire, queue: str) -> None:
    for name in (f"{queue}.dead", f"{queue}x", queue[:-1]):
        wire.request("PUT", f"/{name}")
        wire.publish(name)
        wire.receive(name)
        wire.publish(name)

    assert wire.count(queue) == (0, 0)


def test_the_oldest_age_is_that_of_the_oldest_ready_message(wire: Wire, queue: str) -> None:
    def age() -> float:
        return float(wire.request("GET", f"/{queue}").json()["oldest_age_seconds"])

    wire.publish(queue, b"leased below")
    wire.publish(queue, b"the oldest")
    oldest_came = time.time()
    wait_until(lambda: time.time() > oldest_came + 0.2)
    young_comes = time.time()
    wire.publish(queue, b"young")
    wire.receive(queue)
    assert age() >= young_comes - oldest_came
    wire.receive(queue)

    # An id knows its time to the millisecond.
    assert 0 <= age() < time.time() - young_comes + 0.1


def test_a_message_whose_lease_ran_out_is_ready_again(hasty: Wire) -> None:
    queue = make_queue(hasty)
    hasty.publish(queue)

    assert hasty.receive(queue).status == 200
    wait_until(lambda: hasty.count(queue) == (1, 0))


def test_head_answers_as_get_without_a_body(wire: Wire, queue: str) -> None:
    head = wire.request("HEAD", f"/{queue}")
    get = wire.request("GET", f"/{queue}")

    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    assert head.headers["content-length"] == get.headers["content-length"]


def test_a_missing_queue_is_404(wire: Wire) -> None:
    assert_problem(wire.request("GET", "/absent"), 404, "queue-not-found", "absent")


def test_head_of_a_missing_queue_is_404_without_a_body(wire: Wire) -> None:
    answer = wire.request("HEAD", "/absent")

    assert (answer.status, answer.body) == (404, b"")
    assert wire.request("GET", "/absent").status == 404


@pytest.mark.parametrize("query", ["frobnicate=1", "frobnicate=1&frobnicate=2", "%00", "=1"])
def test_an_unknown_parameter_is_400(wire: Wire, queue: str, query: str) -> None:
    answer = wire.request("GET", f"/{queue}?{query}")

    assert_problem(answer, 400, "invalid-request", "parameter")


@pytest.mark.parametrize("name", ["..", "a%2fb", "n" * 81])
def test_a_malformed_name_is_400(wire: Wire, name: str) -> None:
    assert_problem(wire.request("GET", f"/{name}"), 400, "invalid-name", "queue name")
