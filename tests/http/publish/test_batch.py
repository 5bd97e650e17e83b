"""4.4 POST /QUEUE/messages?batch: several messages, all of them or none."""

from __future__ import annotations

import base64
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from mq.config import MAX_BATCH_BYTES, MAX_BATCH_LINES
from tests.support.batches import (
    BAD_LINES,
    GOOD,
    NDJSON,
    answer_lines,
    ids_of,
    receive_all,
    send,
    send_lines,
)
from tests.support.processes import Server, wait_until
from tests.support.wire import (
    Wire,
    assert_problem,
    chunked,
    files_of,
    make_queue,
    request_bytes,
    wait_until_read,
)


def test_a_batch_is_published_in_the_order_of_its_lines(
    server: Server, wire: Wire, queue: str
) -> None:
    answer = send_lines(wire, queue, *({"body": f"message {n}"} for n in range(20)))

    assert answer.status == 201
    ids = ids_of(answer)
    assert ids == sorted(set(ids))
    assert files_of(server, queue) == [f"queues/{queue}/{each}" for each in ids]
    received = receive_all(wire, queue)
    assert [each.headers["x-message-id"] for each in received] == ids
    assert [each.body for each in received] == [b"message %d" % n for n in range(20)]


def test_a_line_says_all_that_a_publish_can(server: Server, wire: Wire, queue: str) -> None:
    data = bytes(range(256))

    answer = send_lines(
        wire,
        queue,
        {"body": "caf\xe9 \U0001f600", "content_type": "text/plain"},
        {"body_base64": base64.b64encode(data).decode(), "id": "mine"},
        {"body": "", "delay": 3600.5},
    )

    first, second, third = answer_lines(answer)
    assert (second, set(third)) == ({"id": "mine"}, {"id", "visible_at"})
    one, two = receive_all(wire, queue)
    assert {one.headers["content-type"], two.headers["content-type"]} == {
        "text/plain",
        "application/octet-stream",
    }
    assert {one.body, two.body} == {"caf\xe9 \U0001f600".encode(), data}
    assert f"delay/{queue}:{third['id']}" in files_of(server, queue)
    assert first["id"] < third["id"]


@pytest.mark.parametrize(
    "text",
    [
        b'{"body":"a"}\n{"body":"b"}',
        b'{"body":"a"}\r\n{"body":"b"}\r\n',
        b'\n{"body":"a"}\n \n\n{"body":"b"}\n\n',
    ],
)
def test_the_last_line_needs_no_end_and_empty_lines_are_passed_over(
    wire: Wire, queue: str, text: bytes
) -> None:
    assert len(ids_of(send(wire, queue, text))) == 2

    assert [each.body for each in receive_all(wire, queue)] == [b"a", b"b"]


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_is_named_and_nothing_is_published(
    server: Server, wire: Wire, queue: str, line: bytes
) -> None:
    answer = send(wire, queue, GOOD + b"\n" + line + b"\n" + GOOD)

    assert_problem(answer, 400, "invalid-batch", "line 3: ")
    assert BAD_LINES[line] in answer.json()["detail"]
    assert files_of(server, queue) == []


@pytest.mark.parametrize("text", [b"", b"\n", b" \r\n\r\n"])
def test_an_empty_batch_is_400(wire: Wire, queue: str, text: bytes) -> None:
    assert_problem(send(wire, queue, text), 400, "invalid-batch", "empty")


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/x-www-form-urlencoded", "text/plain"]
)
def test_another_content_type_is_415_and_the_right_one_is_named(
    server: Server, wire: Wire, queue: str, content_type: str
) -> None:
    answer = send(wire, queue, GOOD, content_type=content_type)

    assert_problem(answer, 415, "unsupported-media-type", NDJSON)
    assert files_of(server, queue) == []


def test_the_content_type_may_have_parameters_and_capitals(wire: Wire, queue: str) -> None:
    answer = send(wire, queue, GOOD, content_type="Application/X-NDJSON; charset=utf-8")

    assert answer.status == 201


def test_what_belongs_into_a_line_is_400_beside_it(wire: Wire, queue: str) -> None:
    assert_problem(
        send(wire, queue, GOOD, x_message_id="a"), 400, "invalid-request", "X-Message-Id"
    )
    for query in ("batch&delay=1", "batch=1", "batch&batch", "batch&color=red"):
        answer = wire.request("POST", f"/{queue}/messages?{query}", GOOD, content_type=NDJSON)
        assert_problem(answer, 400, "invalid-request", query.rpartition("&")[2][:5])


def test_a_batch_to_no_queue_is_404(wire: Wire) -> None:
    assert_problem(send(wire, "none", GOOD), 404, "queue-not-found", "none")


def test_a_batch_has_up_to_1000_lines(server: Server, wire: Wire, queue: str) -> None:
    assert len(ids_of(send(wire, queue, GOOD * MAX_BATCH_LINES))) == MAX_BATCH_LINES
    before = files_of(server, queue)

    answer = send(wire, queue, GOOD * (MAX_BATCH_LINES + 1))

    assert_problem(answer, 413, "body-too-large", f"line {MAX_BATCH_LINES + 1}")
    assert files_of(server, queue) == before


def test_a_batch_has_up_to_16_mib(server: Server, wire: Wire, queue: str) -> None:
    line = b'{"body": "%s"}\n' % (b"b" * (MAX_BATCH_BYTES // 4 - 13))
    assert len(ids_of(send(wire, queue, line * 4))) == 4

    wire.send(
        request_bytes(
            "POST", f"/{queue}/messages?batch", transfer_encoding="chunked", content_type=NDJSON
        ),
        chunked(line * 4 + b"\n", 100_000),
    )

    assert_problem(wire.answer(), 413, "body-too-large", str(MAX_BATCH_BYTES))
    assert len(files_of(server, queue)) == 4


def test_a_line_over_the_limit_of_a_body_is_413(
    start_shared: Callable[..., Server], connect: Callable[[Server], Wire]
) -> None:
    wire = connect(start_shared("--max-body=10"))
    queue = make_queue(wire)

    answer = send_lines(wire, queue, {"body": "b" * 10}, {"body": "b" * 11})

    assert_problem(answer, 413, "body-too-large", "line 2")
    assert wire.count(queue) == (0, 0)
    assert len(ids_of(send_lines(wire, queue, *[{"body": "b" * 10}] * 5))) == 5


def test_a_batch_that_breaks_off_leaves_nothing(
    server: Server, connect: Callable[[Server], Wire], wire: Wire, queue: str
) -> None:
    leaving = connect(server)
    head = request_bytes(
        "POST", f"/{queue}/messages?batch", content_length="500000", content_type=NDJSON
    )
    leaving.send(head, GOOD * 10_000)
    wait_until_read(server, leaving)

    leaving.close()

    assert files_of(server, queue) == []


# Beside others


def test_a_message_of_a_batch_is_one_like_any_other(wire: Wire, queue: str) -> None:
    ids = ids_of(send_lines(wire, queue, {"body": "a"}, {"body": "b"}))

    received = wire.receive(queue)
    assert wire.remove(queue, ids[0], if_match=received.headers["etag"]).status == 202
    assert wire.remove(queue, ids[1]).status == 202
    assert wire.count(queue) == (0, 0)


def test_another_server_gives_out_what_a_batch_published(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire]
) -> None:
    one, two = connect(start_server()), connect(start_server())
    queue = make_queue(one)
    two.receive(queue)

    ids = ids_of(send_lines(one, queue, *[{"body": "a"}] * 10))

    wait_until(lambda: two.count(queue) == (10, 0))
    assert [each.headers["x-message-id"] for each in receive_all(two, queue)] == ids


def test_clients_that_send_batches_at_once_all_get_theirs(
    server: Server, wire: Wire, queue: str
) -> None:
    def send_one(number: int) -> list[str]:
        own = Wire(server.port)
        ids = ids_of(send(own, queue, b'{"body": "%s"}\n' % (b"b" * 2000) * 50))
        own.close()
        return ids

    with ThreadPoolExecutor(12) as threads:
        ids = [each for found in threads.map(send_one, range(12)) for each in found]

    assert len(set(ids)) == 600
    assert wire.count(queue) == (600, 0)


def test_a_batch_without_room_is_refused_with_how_much_there_is(wire: Wire, queue: str) -> None:
    wire.request("PUT", f"/{queue}?max-messages=3")
    wire.publish(queue)

    refused = send_lines(wire, queue, *[{"body": ""}] * 4)

    told = f"queue {queue} has 1 of the 3 ready messages that its setting max-messages allows"
    assert_problem(refused, 503, "unavailable", f"{told}, which leaves no room for 4 more")
