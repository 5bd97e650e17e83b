"""4.5 GET /QUEUE/messages?peek"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.store.answer_memory import MAX_BODIES_BYTES
from tests.support.batches import body_in, lines_of
from tests.support.peeks import ids_behind, peek, tree
from tests.support.processes import Server
from tests.support.wire import Wire, assert_problem

LARGE = os.urandom(600_000)


@pytest.mark.parametrize("body", [b"", b"body", LARGE], ids=["empty", "small", "large"])
def test_peek_shows_the_oldest_as_it_is(wire: Wire, queue: str, body: bytes) -> None:
    message_id = wire.publish(queue, body, content_type="text/plain")
    wire.publish(queue, b"younger")

    for _ in range(2):
        answer = peek(wire, queue)

        assert (answer.status, answer.body) == (200, body)
        assert answer.headers["x-message-id"] == message_id
        assert answer.headers["content-type"] == "text/plain"
        assert answer.headers["x-state"] == "ready"
        assert answer.headers["x-receive-count"] == "0"
        assert answer.headers["cache-control"] == "no-store, no-transform"
        assert {"etag", "x-visible-at", "x-damaged"}.isdisjoint(answer.headers)


def test_peek_changes_nothing_on_disk(server: Server, wire: Wire, queue: str) -> None:
    ids = [wire.publish(queue, body) for body in (b"one", LARGE, b"three")]
    wire.receive(queue)
    peek(wire, queue)
    before = tree(server.root)

    peek(wire, queue)
    peek(wire, queue, "&max=10")
    for message_id in ids:
        assert peek(wire, queue, f"&id={message_id}").status == 200

    assert tree(server.root) == before
    assert wire.count(queue) == (2, 1)


def test_peek_with_id_sees_a_leased_message_but_not_its_lease(wire: Wire, queue: str) -> None:
    message_id = wire.publish(queue)
    taken = wire.receive(queue)

    answer = peek(wire, queue, f"&id={message_id}")

    assert (answer.status, answer.body) == (200, b"body")
    assert answer.headers["x-state"] == "leased"
    assert answer.headers["x-receive-count"] == "1"
    assert answer.headers["x-visible-at"] == taken.headers["x-visible-at"]
    assert taken.headers["etag"].strip('"') not in str(answer)


def test_peek_with_max_shows_a_line_a_message_in_order(wire: Wire, queue: str) -> None:
    bodies = [b"one", "zw\xf6lf\n\x00".encode(), b"\xff\xfe", LARGE, b""]
    ids = [wire.publish(queue, body, content_type="text/x") for body in bodies]
    assert wire.receive(queue).headers["x-message-id"] == ids[0]

    lines = lines_of(peek(wire, queue, "&max=1000"))

    assert [line["id"] for line in lines] == ids[1:]
    assert [body_in(line) for line in lines] == bodies[1:]
    assert ["body" in line for line in lines] == [True, False, False, True]
    assert {line["state"] for line in lines} == {"ready"}
    assert {line["content_type"] for line in lines} == {"text/x"}
    assert "lease" not in lines[0]
    assert [line["id"] for line in lines_of(peek(wire, queue, "&max=2"))] == ids[1:3]


def test_peek_with_max_is_bounded_by_bytes_but_shows_one(wire: Wire, queue: str) -> None:
    huge, half = bytes(MAX_BODIES_BYTES + 1), b"h" * (MAX_BODIES_BYTES // 2)
    for body in (huge, half, half, b"1"):
        wire.publish(queue, body)

    [first] = lines_of(peek(wire, queue, "&max=10"))
    wire.receive(queue)
    rest = lines_of(peek(wire, queue, "&max=10"))

    assert body_in(first) == huge
    assert [body_in(line) for line in rest] == [half, half]


def test_peek_of_an_empty_queue_is_204(wire: Wire, queue: str) -> None:
    assert peek(wire, queue).status == 204
    assert peek(wire, queue, "&max=5").status == 204


def test_peek_of_what_is_missing_is_404(wire: Wire, queue: str) -> None:
    assert_problem(peek(wire, "absent"), 404, "queue-not-found", "absent")
    assert_problem(peek(wire, "absent", "&id=1"), 404, "queue-not-found", "absent")
    assert_problem(peek(wire, queue, "&id=1"), 404, "message-not-found", queue)
    message_id = wire.publish(queue)
    wire.remove(queue, message_id)
    assert_problem(peek(wire, queue, f"&id={message_id}"), 404, "message-not-found", message_id)


def test_peek_finds_what_stands_behind_files_that_went_away(
    server: Server, wire: Wire, queue: str
) -> None:
    ids = [wire.publish(queue) for _ in range(3)]
    peek(wire, queue)
    for message_id in ids[:2]:
        (server.root / "queues" / queue / message_id).unlink()

    assert peek(wire, queue).headers["x-message-id"] == ids[2]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
@pytest.mark.parametrize("count", [1, 3, 250])
def test_peek_passes_over_what_is_no_message(
    server: Server, wire: Wire, queue: str, make: Callable[[Path], None], count: int
) -> None:
    first = wire.publish(queue)
    folder = server.root / "queues" / queue
    (folder / first).unlink()
    for number in range(count):
        make(folder / f"{first[:-4]}{number:04x}")

    assert peek(wire, queue).status == 204
    assert peek(wire, queue, "&max=2").status == 204

    ids = [wire.publish(queue) for _ in range(3)]

    assert peek(wire, queue).headers["x-message-id"] == ids[0]
    assert [line["id"] for line in lines_of(peek(wire, queue, "&max=500"))] == ids
    assert lines_of(peek(wire, queue, "&max=2"))[0]["id"] == ids[0]
    assert ids_behind(wire, queue, ids[0], 9) == ids[1:]
    assert [wire.receive(queue).headers["x-message-id"] for _ in range(3)] == ids


@pytest.mark.parametrize("size", [10, 600_000])
def test_peek_tells_of_damage_and_leaves_it_there(
    server: Server, wire: Wire, queue: str, size: int
) -> None:
    message_id = wire.publish(queue, b"b" * size)
    (server.root / "queues" / queue / message_id).write_bytes(b"x" * size)

    answer = peek(wire, queue)
    [line] = lines_of(peek(wire, queue, "&max=1"))

    assert answer.headers["x-damaged"] == "yes"
    assert line["damaged"] is True
    assert wire.count(queue) == (1, 0)


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("peek=1", "peek"),
        ("peek=true", "peek"),
        ("peek&peek", "peek"),
        ("peek&wait=1", "wait"),
        ("peek&visibility=1", "visibility"),
        ("peek&id=1&max=1", "max"),
        ("peek&max=0", "max"),
        ("peek&max=1001", "max"),
        ("peek&max=", "max"),
    ],
)
def test_peek_with_a_wrong_parameter_is_400_and_names_it(
    wire: Wire, queue: str, query: str, named: str
) -> None:
    wire.publish(queue)

    assert_problem(wire.request("GET", f"/{queue}/messages?{query}"), 400, "invalid-request", named)


@pytest.mark.parametrize("message_id", ["", "a%2Fb", "..", "a" * 65])
def test_peek_with_a_malformed_id_is_400(wire: Wire, queue: str, message_id: str) -> None:
    assert_problem(peek(wire, queue, f"&id={message_id}"), 400, "invalid-name")


def test_after_goes_on_behind_a_message_in_the_order_of_the_queue(wire: Wire, queue: str) -> None:
    ids = [
        wire.publish(queue, b"", x_message_id=own) if own else wire.publish(queue, b"")
        for own in ("z", "", "a", "", "m")
    ]

    for place, message_id in enumerate(ids):
        assert ids_behind(wire, queue, message_id) == ids[place + 1 :]
        assert ids_behind(wire, queue, message_id, 2) == ids[place + 1 : place + 3]
    next_one = peek(wire, queue, f"&after={ids[2]}")
    assert next_one.headers["x-message-id"] == ids[3]
    assert wire.count(queue) == (5, 0)


def test_after_needs_no_ready_message(wire: Wire, queue: str) -> None:
    """One page may be worked off while the next one is asked for."""
    ids = [wire.publish(queue, b"", x_message_id=f"own-{number}") for number in range(4)]
    for _ in range(2):
        wire.receive(queue)
    assert wire.request("DELETE", f"/{queue}/messages/{ids[0]}").status == 202

    assert ids_behind(wire, queue, ids[0]) == ids[2:]
    assert ids_behind(wire, queue, ids[1]) == ids[2:]
    assert ids_behind(wire, queue, "01890000-0000-7000-8000-000000000000") == ids[2:]
    assert_problem(peek(wire, queue, "&after=unheard-of"), 404, "message-not-found", "unheard-of")


def test_after_goes_with_a_peek_at_many_alone(wire: Wire, queue: str) -> None:
    message_id = wire.publish(queue, b"")

    for query in (f"?after={message_id}", f"?peek&after={message_id}&id={message_id}"):
        answer = wire.request("GET", f"/{queue}/messages{query}")
        assert_problem(answer, 400, "invalid-request", "'after'")
    assert_problem(peek(wire, queue, "&after=a/b"), 400, "invalid-name")
    assert_problem(peek(wire, "absent", f"&after={message_id}"), 404, "queue-not-found")
