"""4.3 DELETE /QUEUE?purge"""

from __future__ import annotations

import json

import pytest

from tests.support.processes import Server
from tests.support.wire import Wire, assert_problem, files_of


def _fill(wire: Wire, queue: str) -> str:
    """Three ready, one leased, one delayed; returns the ETag of the lease."""
    for _ in range(4):
        wire.publish(queue)
    received = wire.receive(queue)
    wire.request("POST", f"/{queue}/messages?delay=1000", b"late")
    return received.headers["etag"]


def test_a_purge_removes_all_messages_and_says_how_many(
    wire: Wire, server: Server, queue: str
) -> None:
    _fill(wire, queue)

    answer = wire.request("DELETE", f"/{queue}?purge")

    assert (answer.status, json.loads(answer.body)) == (200, {"purged": 5})
    assert answer.headers["content-type"] == "application/json"
    document = json.loads(wire.request("GET", f"/{queue}").body)
    assert (document["ready"], document["leased"], document["delayed"]) == (0, 0, 0)
    assert all(path.startswith("remove/") for path in files_of(server, queue))


def test_a_purge_of_the_ready_leaves_leased_and_delayed_ones(wire: Wire, queue: str) -> None:
    _fill(wire, queue)

    answer = wire.request("DELETE", f"/{queue}?purge=ready")

    assert json.loads(answer.body) == {"purged": 3}
    document = json.loads(wire.request("GET", f"/{queue}").body)
    assert (document["ready"], document["leased"], document["delayed"]) == (0, 1, 1)


def test_a_worker_learns_that_its_message_is_gone_and_goes_on(wire: Wire, queue: str) -> None:
    wire.publish(queue)
    received = wire.receive(queue)
    etag = received.headers["etag"]
    message_id = received.headers["x-message-id"]
    wire.request("DELETE", f"/{queue}?purge")

    for again in (
        wire.request("DELETE", f"/{queue}/messages/{message_id}", if_match=etag),
        wire.request("GET", f"/{queue}/messages?id={message_id}&visibility=9", if_match=etag),
    ):
        assert_problem(again, 404, "message-not-found", message_id)
    wire.publish(queue, b"new")
    assert wire.receive(queue).body == b"new"


def test_a_purge_keeps_the_settings(wire: Wire, queue: str) -> None:
    wire.request("PUT", f"/{queue}?visibility=77")
    wire.request("DELETE", f"/{queue}?purge")
    assert json.loads(wire.request("GET", f"/{queue}").body)["settings"] == {"visibility": 77}


@pytest.mark.parametrize("query", ["purge=leased", "purge=all", "purge=1", "purge&purge", "purged"])
def test_anything_else_is_refused_and_nothing_removed(wire: Wire, queue: str, query: str) -> None:
    wire.publish(queue)
    answer = wire.request("DELETE", f"/{queue}?{query}")
    assert_problem(answer, 400, "invalid-request", "purge")
    assert wire.count(queue) == (1, 0)


def test_a_missing_queue_is_404_for_a_purge_too(wire: Wire) -> None:
    answer = wire.request("DELETE", "/absent?purge")
    assert_problem(answer, 404, "queue-not-found", "absent")
