"""4.5 GET /QUEUE/messages?wait=S without a message"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.support.processes import Server
from tests.support.wire import Wire, assert_problem, begin_to_wait, make_queue, request_bytes, take

Connect = Callable[[Server], Wire]


def test_a_wait_that_is_over_is_204(wire: Wire, queue: str) -> None:
    for text in ("0.3", "0"):
        started = time.monotonic()

        answer = wire.request("GET", f"/{queue}/messages?wait={text}")

        assert answer.status == 204
        assert time.monotonic() - started >= float(text)


def test_pipelined_waits_are_answered_in_turn(wire: Wire, queue: str) -> None:
    message_id = wire.publish(queue)

    wire.send(request_bytes("GET", f"/{queue}/messages?wait=0.1") * 3)

    assert [wire.answer().status for _ in range(3)] == [200, 204, 204]
    assert take(wire, queue, message_id).headers["x-receive-count"] == "2"


def test_waiting_for_a_missing_queue_is_404(wire: Wire) -> None:
    answer = wire.request("GET", "/absent/messages?wait=60")

    assert_problem(answer, 404, "queue-not-found", "absent")


@pytest.mark.parametrize("by", ["this server", "another server", "a person"])
def test_waiters_of_a_queue_that_is_deleted_are_told_at_once(
    server: Server, queue: str, connect: Connect, start_server: Callable[..., Server], by: str
) -> None:
    wires = [connect(server) for _ in range(20)]
    for each in wires:
        begin_to_wait(server, each, queue)

    if by == "a person":
        shutil.rmtree(server.root / "queues" / queue)
    else:
        other = server if by == "this server" else start_server(root=server.root)
        with closing(Wire(other.port)) as wire:
            assert wire.request("DELETE", f"/{queue}").status == 200

    for each in wires:
        assert_problem(each.answer(), 404, "queue-not-found", queue)


def test_a_stopping_server_answers_all_who_wait_at_once(
    start_server: Callable[..., Server], connect: Connect
) -> None:
    server = start_server()
    wire = connect(server)
    queues = [make_queue(wire) for _ in range(3)]
    wires = [connect(server) for _ in range(30)]
    for number, each in enumerate(wires):
        begin_to_wait(server, each, queues[number % 3])

    assert server.stop() == 0

    for each in wires:
        answer = each.answer()
        assert answer.status == 204
        assert each.is_closed()


def test_a_wait_is_at_most_a_minute(wire: Wire, queue: str) -> None:
    for text in ("60.1", "-1", "", "nan", "1e3"):
        answer = wire.request("GET", f"/{queue}/messages?wait={text}")

        assert_problem(answer, 400, "invalid-request", f"wait={text!r}")
