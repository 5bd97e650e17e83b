"""A batch whose lines name queues of their own: all of its messages are published, or none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mq.config import MAX_QUEUES
from tests.support.batches import NDJSON, answer_lines, ids_of
from tests.support.processes import Server
from tests.support.token_files import make_token_file
from tests.support.wire import Wire, WireAnswer, assert_problem, files_of, make_queue


@pytest.fixture
def queues(wire: Wire) -> list[str]:
    return [make_queue(wire) for _ in range(3)]


def publish(wire: Wire, path: str, *lines: Any, **headers: str) -> WireAnswer:
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    separator = "&" if "?" in path else "?"
    target = f"{path}{separator}batch"
    return wire.request("POST", target, text, content_type=NDJSON, **headers)


def bodies(wire: Wire, queue: str) -> list[bytes]:
    """What is ready, in order; it is received."""
    found = []
    while (answer := wire.receive(queue)).status == 200:
        found.append(answer.body)
    return found


def test_each_line_goes_to_its_queue_in_order(wire: Wire, queues: list[str]) -> None:
    first, second, third = queues
    lines: list[dict[str, Any]] = [
        {"body": "1"}, {"body": "2", "queue": second}, {"body": "3", "queue": third},
        {"body": "4", "queue": first}, {"body": "5", "queue": second, "delay": 3600},
        {"body": "6", "queue": second},
    ]  # fmt: skip

    answer = publish(wire, f"/{first}/messages", *lines)

    assert answer.status == 201
    answers = answer_lines(answer)
    assert [each.get("queue") for each in answers] == [each.get("queue") for each in lines]
    assert ["visible_at" in each for each in answers] == [False] * 4 + [True, False]
    assert len({each["id"] for each in answers}) == 6
    assert [bodies(wire, each) for each in queues] == [[b"1", b"4"], [b"2", b"6"], [b"3"]]


def test_no_line_need_be_for_the_queue_in_the_path(wire: Wire, queues: list[str]) -> None:
    first, second, _ = queues

    answer = publish(wire, f"/{first}/messages", *[{"body": "x", "queue": second}] * 200)

    assert len(ids_of(answer)) == 200
    assert (wire.count(first), wire.count(second)) == ((0, 0), (200, 0))


def test_copies_are_of_each_line_for_the_queues_asked_for_and_of_its_settings(
    wire: Wire, queues: list[str]
) -> None:
    first, second, third = queues
    fourth = make_queue(wire)
    wire.request("PUT", f"/{second}?also={fourth},{first}")

    answer = publish(
        wire, f"/{first}/messages?also={third}", {"body": "1"}, {"body": "2", "queue": second}
    )

    assert answer.status == 201
    assert [bodies(wire, each) for each in (first, second, third, fourth)] == [
        [b"1", b"2"], [b"2"], [b"1", b"2"], [b"2"]
    ]  # fmt: skip


def test_an_own_id_may_be_in_several_queues_and_is_once_in_each(
    wire: Wire, queues: list[str]
) -> None:
    first, second, _ = queues
    lines = [{"body": "a", "id": "own"}, {"body": "b", "id": "own", "queue": second}]
    assert publish(wire, f"/{first}/messages", *lines).status == 201

    again = publish(wire, f"/{first}/messages", *lines)

    assert again.status == 200
    assert answer_lines(again) == [
        {"id": "own", "duplicate": True}, {"id": "own", "queue": second, "duplicate": True}
    ]  # fmt: skip
    taken = publish(wire, f"/{first}/messages", {"body": "c", "id": "own", "queue": second})
    assert_problem(taken, 409, "id-taken", "line 1: message own")
    assert [bodies(wire, each) for each in (first, second)] == [[b"a"], [b"b"]]


def test_none_is_published_if_a_queue_is_missing_full_or_fifo(
    server: Server, wire: Wire, queues: list[str]
) -> None:
    first, second, third = queues
    fifo = f"{first}.fifo"
    wire.request("PUT", f"/{fifo}")
    wire.request("PUT", f"/{second}?max-messages=1")
    wire.publish(second, b"x")
    wire.request("DELETE", f"/{third}")
    wrong = [
        (third, 404, "queue-not-found"), (second, 503, "unavailable"), (fifo, 409, "fifo-queue")
    ]  # fmt: skip

    for queue, status, kind in wrong:
        answer = publish(wire, f"/{first}/messages", {"body": "1"}, {"body": "2", "queue": queue})
        assert_problem(answer, status, kind, queue)

    assert files_of(server, first) == []
    assert wire.count(second) == (1, 0)


@pytest.mark.parametrize("more", [{}, {"expect": "100-continue"}], ids=["at once", "asks first"])
def test_the_queue_in_the_path_is_needed_even_if_no_line_is_for_it(
    server: Server,
    wire: Wire,
    connect: Callable[[Server], Wire],
    queues: list[str],
    more: dict[str, str],
) -> None:
    missing, fifo = f"{queues[0]}-missing", f"{queues[0]}.fifo"
    wire.request("PUT", f"/{fifo}")

    for path, status, kind in (missing, 404, "queue-not-found"), (fifo, 409, "fifo-queue"):
        line = {"body": "1", "queue": queues[1]}
        answer = publish(connect(server), f"/{path}/messages", line, **more)
        assert_problem(answer, status, kind, path)

    assert wire.count(queues[1]) == (0, 0)


def test_a_name_that_is_none_is_refused_with_its_line(wire: Wire, queue: str) -> None:
    for name in ("", "a/b", 5, None, ["a"], ".."):
        lines = {"body": "1"}, {"body": "2", "queue": name}
        answer = publish(wire, f"/{queue}/messages", *lines)
        assert_problem(answer, 400, "invalid-batch", "line 2: 'queue'")

    assert wire.count(queue) == (0, 0)


def test_a_batch_is_for_as_many_queues_as_a_message(wire: Wire, queue: str) -> None:
    others = [make_queue(wire) for _ in range(MAX_QUEUES)]
    lines = [{"body": "x", "queue": each} for each in others]

    assert publish(wire, f"/{queue}/messages", *lines).status == 201
    assert [wire.count(each) for each in others] == [(1, 0)] * MAX_QUEUES
    answer = publish(wire, f"/{queue}/messages", {"body": "x"}, *lines)
    assert_problem(answer, 400, "invalid-request", f"{MAX_QUEUES + 1} queues")

    assert wire.count(queue) == (0, 0)
    for each in others:
        wire.request("DELETE", f"/{each}")


@pytest.mark.parametrize("size", [4, 3_000_000])
def test_a_token_must_be_for_all_of_them(
    start_server: Callable[..., Server],
    connect: Callable[[Server], Wire],
    tmp_path: Path,
    size: int,
) -> None:
    secret, admin = "bound-8wYs2Pm3qkx9tVv3", "admin-8wYs2Pm3qkx9tVv3"
    tokens = make_token_file(
        tmp_path, f"bound write orders,bills {secret}", f"all read,write,admin {admin}"
    )
    wire = connect(start_server(f"--token-file={tokens}"))
    for name in ("orders", "bills", "kitchen"):
        wire.request("PUT", f"/{name}", authorization=f"Bearer {admin}")

    def ask(queue: str) -> WireAnswer:
        lines = {"body": "x" * size}, {"body": "x", "queue": queue}
        return publish(wire, "/orders/messages", *lines, authorization=f"Bearer {secret}")

    assert ask("bills").status == 201
    for name in ("kitchen", "absent"):
        assert_problem(ask(name), 403, "forbidden", f"not for {name}")
    count = wire.request("GET", "/orders", authorization=f"Bearer {admin}").json()
    assert count["ready"] == 1
