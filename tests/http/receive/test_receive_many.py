"""4.5 GET /QUEUE/messages?max=N"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from mq.ids import ServerIds
from mq.store.answer_memory import MAX_BODIES_BYTES
from tests.support.batches import body_in, lines_of
from tests.support.messages import names_in, write_message
from tests.support.processes import Process, Server, start_mover, wait_until
from tests.support.wire import (
    Wire,
    WireAnswer,
    assert_problem,
    begin_to_wait,
    request_bytes,
    take,
    wait_until_closed,
)

LARGE = os.urandom(600_000)


def receive(wire: Wire, queue: str, limit: int, more: str = "") -> WireAnswer:
    return wire.request("GET", f"/{queue}/messages?max={limit}{more}")


def test_max_takes_that_many_in_order_each_under_a_lease(wire: Wire, queue: str) -> None:
    bodies = [b"", "zw\xf6lf\r\n\x00\u2028".encode(), b"\xff\xfe", LARGE, b"l" * 600_000, b"six"]
    ids = [wire.publish(queue, body, content_type="text/x") for body in bodies]

    lines = lines_of(receive(wire, queue, 5))

    assert [line["id"] for line in lines] == ids[:5]
    assert [body_in(line) for line in lines] == bodies[:5]
    assert ["body" in line for line in lines] == [True, True, False, False, True]
    for line in lines:
        assert line["content_type"] == "text/x"
        assert line["receive_count"] == 1
        assert line["published_at"] < line["visible_at"]
        assert line.keys() - {"body", "body_base64"} == {
            "id", "content_type", "lease", "receive_count", "published_at", "visible_at"
        }  # fmt: skip
    assert len({line["lease"] for line in lines}) == 5
    assert wire.count(queue) == (1, 5)
    for line in lines:
        etag = f'"{line["lease"]}"'
        assert take(wire, queue, line["id"], if_match=etag).headers["etag"] == etag
        assert wire.remove(queue, line["id"], if_match=etag).status == 202
    assert [line["id"] for line in lines_of(receive(wire, queue, 1000))] == ids[5:]


def test_without_a_content_type_a_line_has_none(wire: Wire, queue: str) -> None:
    wire.publish(queue)

    [line] = lines_of(receive(wire, queue, 1))

    assert "content_type" not in line


def test_max_takes_a_thousand_at_once(server: Server, wire: Wire, queue: str) -> None:
    make_ids = ServerIds(time.time_ns)
    ids = [make_ids.next() for _ in range(1001)]
    for message_id in ids:
        write_message(server.root / "queues" / queue / message_id)

    lines = lines_of(receive(wire, queue, 1000, "&visibility=3600"))

    assert [line["id"] for line in lines] == ids[:1000]
    assert wire.count(queue) == (1, 1000)


def test_an_empty_queue_is_204(wire: Wire, queue: str) -> None:
    assert receive(wire, queue, 10).status == 204
    assert receive(wire, queue, 10, "&wait=0.1").status == 204


def test_max_is_bounded_by_bytes_but_takes_one(wire: Wire, queue: str) -> None:
    huge, half = os.urandom(MAX_BODIES_BYTES + 1), b"h" * (MAX_BODIES_BYTES // 2)
    for body in (huge, half, half, b"1"):
        wire.publish(queue, body)

    [first] = lines_of(receive(wire, queue, 10))
    halves = lines_of(receive(wire, queue, 10))
    [last] = lines_of(receive(wire, queue, 10))

    assert (body_in(first) == huge) is True
    assert [body_in(line) == half for line in halves] == [True, True]
    assert body_in(last) == b"1"


def test_max_with_wait_answers_as_soon_as_there_is_one(
    server: Server, connect: Callable[[Server], Wire], wire: Wire, queue: str
) -> None:
    waiter = connect(server)
    begin_to_wait(server, waiter, queue, "&max=10")

    message_id = wire.publish(queue)

    assert [line["id"] for line in lines_of(waiter.answer())] == [message_id]


@pytest.mark.parametrize("size", [4, 600_000])
def test_damaged_messages_are_left_out(server: Server, wire: Wire, queue: str, size: int) -> None:
    ids = [wire.publish(queue, b"b" * size) for _ in range(4)]
    for damaged in ids[:2]:
        (server.root / "queues" / queue / damaged).write_bytes(b"x" * size)

    lines = lines_of(receive(wire, queue, 10))

    assert [line["id"] for line in lines] == ids[2:]
    assert {f"{queue}:{each}" for each in ids[:2]} <= set(names_in(server.root / "corrupt"))


def test_messages_whose_receiver_left_were_never_received(
    server: Server, connect: Callable[[Server], Wire], wire: Wire, queue: str
) -> None:
    ids = [wire.publish(queue, body) for body in (b"small", LARGE, b"small")]
    gone = connect(server)
    server.popen.send_signal(signal.SIGSTOP)
    gone.send(request_bytes("GET", f"/{queue}/messages?max=10"))
    gone.reset()
    server.popen.send_signal(signal.SIGCONT)
    wait_until_closed(server, gone.local_port)
    wait_until(lambda: wire.count(queue) == (3, 0))

    lines = lines_of(receive(wire, queue, 10))

    assert [(line["id"], line["receive_count"]) for line in lines] == [(each, 1) for each in ids]


def test_messages_received_together_come_back_when_their_leases_are_over(
    server: Server, wire: Wire, queue: str, processes: list[Process]
) -> None:
    processes.append(start_mover(server.root))
    ids = [wire.publish(queue) for _ in range(10)]

    receive(wire, queue, 10, "&visibility=0.2")

    wait_until(lambda: wire.count(queue) == (10, 0))
    lines = lines_of(receive(wire, queue, 10))
    assert [(line["id"], line["receive_count"]) for line in lines] == [(each, 2) for each in ids]


@pytest.mark.parametrize("text", ["", "0", "1001", "-1", "1.5", "nan", "1e999"])
def test_a_wrong_number_is_400(wire: Wire, queue: str, text: str) -> None:
    wire.publish(queue)

    answer = wire.request("GET", f"/{queue}/messages?max={text}")

    assert_problem(answer, 400, "invalid-request", f"max={text!r}")
    assert wire.count(queue) == (1, 0)
