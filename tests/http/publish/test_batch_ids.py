"""Batches whose messages have ids of their producer's own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support.batches import (
    answer_lines,
    files_on_their_way,
    receive_all,
    send_lines,
)
from tests.support.processes import Server
from tests.support.wire import Wire, assert_problem, files_of, make_queue


def test_a_batch_sent_again_is_200_and_stored_once(server: Server, wire: Wire, queue: str) -> None:
    lines = [{"body": f"{n}", "id": f"id-{n}"} for n in range(5)]
    assert send_lines(wire, queue, *lines).status == 201
    wire.receive(queue)

    again = send_lines(wire, queue, *lines)

    assert again.status == 200
    assert answer_lines(again) == [{"id": f"id-{n}", "duplicate": True} for n in range(5)]
    assert wire.count(queue) == (4, 1)
    assert len(files_of(server, queue)) == 5


def test_a_batch_sent_again_says_until_when_its_messages_are_hidden(wire: Wire, queue: str) -> None:
    line = {"body": "later", "id": "mine", "delay": 3600}

    first, repeated = answer_lines(send_lines(wire, queue, line, line))

    assert repeated == {**first, "duplicate": True}
    assert answer_lines(send_lines(wire, queue, line)) == [repeated]


def test_a_batch_with_new_and_known_messages_publishes_the_new_ones(wire: Wire, queue: str) -> None:
    wire.publish(queue, b"known", x_message_id="known")

    answer = send_lines(
        wire, queue, {"body": "known", "id": "known"}, {"body": "a"}, {"body": "b", "id": "new"}
    )

    assert answer.status == 201
    lines = answer_lines(answer)
    assert [line.get("duplicate", False) for line in lines] == [True, False, False]
    assert wire.count(queue) == (3, 0)


def test_an_id_with_another_body_refuses_the_batch_and_names_the_line(
    server: Server, wire: Wire, queue: str
) -> None:
    wire.publish(queue, b"known", x_message_id="known")

    answer = send_lines(wire, queue, {"body": "a"}, {"body": "other", "id": "known"})

    assert_problem(answer, 409, "id-taken", "line 2")
    assert wire.count(queue) == (1, 0)
    assert files_on_their_way(server, queue) == [f"queues/{queue}/known"]


def test_an_id_twice_in_a_batch_is_one_message(server: Server, wire: Wire, queue: str) -> None:
    line = {"body": "a", "id": "one"}

    answer = send_lines(wire, queue, line, {"body": "b"}, line)

    assert [each.get("duplicate", False) for each in answer_lines(answer)] == [False, False, True]
    assert wire.count(queue) == (2, 0)


def test_an_id_twice_in_a_batch_with_two_bodies_is_409(
    server: Server, wire: Wire, queue: str
) -> None:
    answer = send_lines(wire, queue, {"body": "a", "id": "one"}, {"body": "b", "id": "one"})

    assert_problem(answer, 409, "id-taken", "line 2")
    assert files_on_their_way(server, queue) == []


def test_batches_with_the_same_ids_at_once_on_two_servers_store_each_once(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire]
) -> None:
    servers = [start_server(), start_server()]
    queue = make_queue(connect(servers[0]))

    def send_from(number: int) -> list[dict[str, Any]]:
        wire = Wire(servers[number % 2].port)
        lines = [{"body": f"{n}", "id": f"id-{n}"} for n in range(number, number + 20)]
        found = answer_lines(send_lines(wire, queue, *lines))
        wire.close()
        return found

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(send_from, range(16)))

    new = [line["id"] for lines in answers for line in lines if "duplicate" not in line]
    assert sorted(new) == sorted(f"id-{n}" for n in range(35))
    assert files_of(servers[0], queue) == sorted(f"queues/{queue}/id-{n}" for n in range(35))


def test_of_two_batches_at_once_with_other_bodies_one_is_stored_whole(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire]
) -> None:
    servers = [start_server(), start_server()]
    wire = connect(servers[0])
    queue = make_queue(wire)

    def send_from(number: int) -> int:
        own = Wire(servers[number % 2].port)
        ids = list(range(30)) if number % 2 else list(reversed(range(30)))
        lines = [{"body": f"from {number}", "id": f"id-{n}"} for n in ids]
        status = send_lines(own, queue, *lines).status
        own.close()
        return status

    with ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(send_from, range(8)))

    assert sorted(statuses) == [201] + [409] * 7
    bodies = [each.body for each in receive_all(wire, queue)]
    assert bodies == [b"from %d" % statuses.index(201)] * 30
