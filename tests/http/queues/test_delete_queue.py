"""4.3 DELETE /QUEUE"""

from __future__ import annotations

import pytest

from tests.support.processes import Server, wait_until
from tests.support.wire import Wire, assert_problem, files_of, make_queue


def test_a_deleted_queue_is_gone_for_every_endpoint(wire: Wire, queue: str) -> None:
    answer = wire.request("DELETE", f"/{queue}")

    assert (answer.status, answer.body) == (200, b"")
    for again in (
        wire.request("DELETE", f"/{queue}"),
        wire.request("GET", f"/{queue}"),
        wire.request("GET", f"/{queue}/messages"),
        wire.request("POST", f"/{queue}/messages", b"body"),
        wire.request("DELETE", f"/{queue}/messages/1"),
    ):
        assert_problem(again, 404, "queue-not-found", queue)


@pytest.mark.parametrize("query", ["", "?purge"])
def test_a_lease_is_not_for_a_queue(wire: Wire, queue: str, query: str) -> None:
    """Its sender means a message, and has lost its id."""
    wire.publish(queue)
    lease = wire.receive(queue).headers["etag"]

    answer = wire.request("DELETE", f"/{queue}{query}", if_match=lease)

    assert_problem(answer, 400, "invalid-request", "If-Match")
    assert wire.count(queue) == (0, 1)


def test_deleting_takes_ready_and_leased_messages_along(
    wire: Wire, server: Server, queue: str
) -> None:
    for _ in range(3):
        wire.publish(queue)
    wire.receive(queue)
    assert wire.count(queue) == (2, 1)

    assert wire.request("DELETE", f"/{queue}").status == 200
    assert all(path.startswith("remove/") for path in files_of(server, queue))
    assert wire.request("PUT", f"/{queue}").status == 201
    assert wire.count(queue) == (0, 0)
    assert wire.receive(queue).status == 204


def test_a_queue_made_again_starts_empty_and_works(wire: Wire, queue: str) -> None:
    wire.publish(queue, b"old")
    wire.request("DELETE", f"/{queue}")
    wire.request("PUT", f"/{queue}")

    wire.publish(queue, b"new")

    assert wire.receive(queue).body == b"new"
    assert wire.receive(queue).status == 204


def test_no_message_comes_back_into_a_queue_made_again(hasty: Wire) -> None:
    deleted, witness = make_queue(hasty), make_queue(hasty)
    for name in (deleted, witness):
        hasty.publish(name)
        assert hasty.receive(name).status == 200
    hasty.request("DELETE", f"/{deleted}")
    hasty.request("PUT", f"/{deleted}")

    wait_until(lambda: hasty.count(witness) == (1, 0))

    assert hasty.count(deleted) == (0, 0)
    assert hasty.receive(deleted).status == 204


def test_queues_of_a_like_name_are_untouched(wire: Wire, queue: str) -> None:
    others = [f"{queue}.dead", f"{queue}x", queue[:-1]]
    for name in others:
        wire.request("PUT", f"/{name}")
        wire.publish(name)
        wire.receive(name)
        wire.publish(name)

    wire.request("DELETE", f"/{queue}")

    assert [wire.count(name) for name in others] == [(1, 1)] * 3


def test_a_missing_queue_is_404(wire: Wire) -> None:
    assert_problem(wire.request("DELETE", "/absent"), 404, "queue-not-found", "absent")


@pytest.mark.parametrize("query", ["force=1", "force=1&force=1"])
def test_an_unknown_parameter_is_400_and_deletes_nothing(
    wire: Wire, queue: str, query: str
) -> None:
    answer = wire.request("DELETE", f"/{queue}?{query}")

    assert_problem(answer, 400, "invalid-request", "'force'")
    assert wire.request("GET", f"/{queue}").status == 200


@pytest.mark.parametrize("name", ["..", "%2e%2e", ".", "a%2fb", "%00", "n" * 81])
def test_a_malformed_name_is_400(wire: Wire, name: str) -> None:
    assert_problem(wire.request("DELETE", f"/{name}"), 400, "invalid-name", "queue name")
