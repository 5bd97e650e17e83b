"""4.5 GET /QUEUE/messages?id=ID&visibility=0"""

from __future__ import annotations

import pytest

from tests.support.messages import delay
from tests.support.processes import Server
from tests.support.wire import Wire, assert_problem, take


@pytest.mark.parametrize("state", ["ready", "leased", "delayed"])
@pytest.mark.parametrize("guarded", [False, True])
def test_visibility_0_releases_at_once(
    server: Server, wire: Wire, queue: str, state: str, guarded: bool
) -> None:
    message_id = wire.publish(queue, content_type="text/plain")
    wire.publish(queue, b"younger")
    headers = {}
    if state == "leased":
        etag = wire.receive(queue).headers["etag"]
        headers = {"if_match": etag} if guarded else {}
    if state == "delayed":
        delay(server.root, queue, message_id)

    answer = take(wire, queue, message_id, "&visibility=0", **headers)

    assert (answer.status, answer.body) == (204, b"")
    assert wire.count(queue) == (2, 0)
    again = wire.receive(queue)
    assert again.headers["x-message-id"] == message_id
    assert again.headers["content-type"] == "text/plain"
    assert again.headers["x-receive-count"] == ("2" if state == "leased" else "1")


def test_release_ends_the_lease(wire: Wire, queue: str) -> None:
    message_id = wire.publish(queue)
    etag = wire.receive(queue).headers["etag"]

    take(wire, queue, message_id, "&visibility=0", if_match=etag)

    for answer in (
        wire.remove(queue, message_id, if_match=etag),
        take(wire, queue, message_id, if_match=etag),
        take(wire, queue, message_id, if_match="*"),
        take(wire, queue, message_id, "&visibility=0", if_match=etag),
    ):
        assert_problem(answer, 412, "lease-mismatch")
    assert wire.count(queue) == (1, 0)


def test_release_of_a_ready_message_ends_the_lease_it_had(
    server: Server, wire: Wire, queue: str
) -> None:
    message_id = wire.publish(queue)
    etag = wire.receive(queue).headers["etag"]
    leased = server.root / "delay" / f"{queue}:{message_id}"
    leased.rename(server.root / "queues" / queue / message_id)

    answer = take(wire, queue, message_id, "&visibility=0", if_match=etag)

    assert answer.status == 204
    removed = wire.remove(queue, message_id, if_match=etag)
    assert_problem(removed, 412, "lease-mismatch", "or it was released; do not remove it")
