"""4.5 GET /QUEUE/messages: parameters that are wrong, or do not go together"""

from __future__ import annotations

import pytest

from tests.support.wire import Wire, assert_problem


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("visibility=", "visibility"),
        ("visibility=0", "visibility"),
        ("visibility=0.0", "visibility"),
        ("visibility=-1", "visibility"),
        ("visibility=nan", "visibility"),
        ("visibility=1e999", "visibility"),
        ("visibility=2592000.1", "visibility"),
        ("visibility=5&visibility=5", "visibility"),
        ("id=1&visibility=-1", "visibility"),
        ("id=1&visibility=inf", "visibility"),
        ("id=1&wait=1", "wait"),
        ("id=1&max=1", "max"),
        ("id=1&id=1", "id"),
        ("id=1&delay=1", "delay"),
    ],
)
def test_a_wrong_parameter_is_400_and_names_it(
    wire: Wire, queue: str, query: str, named: str
) -> None:
    wire.publish(queue)

    answer = wire.request("GET", f"/{queue}/messages?{query}")

    assert_problem(answer, 400, "invalid-request", named)
    assert wire.count(queue) == (1, 0)


@pytest.mark.parametrize("query", ["", "?visibility=60", "?max=2", "?wait=1", "?peek"])
def test_if_match_without_an_id_is_400_and_takes_no_message(
    wire: Wire, queue: str, query: str
) -> None:
    wire.publish(queue)
    lease = wire.receive(queue).headers["etag"]
    wire.publish(queue)

    for _ in range(3):  # A head that comes twice is known.
        answer = wire.request("GET", f"/{queue}/messages{query}", if_match=lease)

        assert_problem(answer, 400, "invalid-request", "If-Match")
    assert wire.count(queue) == (1, 1)
