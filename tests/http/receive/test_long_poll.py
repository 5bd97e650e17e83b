"""4.5 GET /QUEUE/messages?wait=S"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.messages import delay
from tests.support.processes import Process, Server, start_mover, wait_until
from tests.support.wire import (
    Wire,
    WireAnswer,
    begin_to_wait,
    make_queue,
    request_bytes,
    take,
    wait_until_closed,
)

Connect = Callable[[Server], Wire]
LineUp = Callable[[str, int], list[Wire]]


@pytest.fixture(params=["disk", "memory"], scope="module")
def server(request: pytest.FixtureRequest, start_shared: Callable[..., Server]) -> Iterator[Server]:
    """A root on each kind of medium: file work runs in a thread, or on the event loop itself."""
    if request.param == "disk":
        yield start_shared()
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        log = Path(folder, "mq.log")
        started = Server(Path(folder, "root"), log=log)
        yield started
        started.kill()
        assert "Traceback" not in started.log()


@pytest.fixture
def waiter(server: Server, connect: Connect) -> Wire:
    """A client who will wait."""
    return connect(server)


@pytest.fixture
def line_up(server: Server, connect: Connect) -> LineUp:
    """`line_up(queue, 20)` lets 20 clients wait, in the order in which they are returned."""

    def begin(queue: str, count: int) -> list[Wire]:
        wires = [connect(server) for _ in range(count)]
        for wire in wires:
            begin_to_wait(server, wire, queue)
        return wires

    return begin


def assert_got(answer: WireAnswer, message_id: str, count: str = "1") -> None:
    assert answer.status == 200
    assert answer.headers["x-message-id"] == message_id
    assert answer.headers["x-receive-count"] == count


@pytest.mark.parametrize("size", [4, 600_000])
def test_a_publish_wakes_who_waits(
    server: Server, wire: Wire, waiter: Wire, queue: str, size: int
) -> None:
    begin_to_wait(server, waiter, queue)

    message_id = wire.publish(queue, b"b" * size)

    answer = waiter.answer()
    assert_got(answer, message_id)
    assert answer.body == b"b" * size


def test_a_release_wakes_who_waits(server: Server, wire: Wire, waiter: Wire, queue: str) -> None:
    message_id = wire.publish(queue)
    wire.receive(queue)
    begin_to_wait(server, waiter, queue)

    take(wire, queue, message_id, "&visibility=0")

    assert_got(waiter.answer(), message_id, "2")


def test_a_receiver_that_left_wakes_who_waits(
    server: Server, connect: Connect, wire: Wire, waiter: Wire, queue: str
) -> None:
    message_id = wire.publish(queue, b"b" * 20_000_000)
    gone = connect(server)
    gone.send(request_bytes("GET", f"/{queue}/messages"))
    assert gone.socket.recv(100_000).startswith(b"HTTP/1.1 200 OK")
    begin_to_wait(server, waiter, queue)

    gone.reset()

    assert_got(waiter.answer(), message_id)


def test_a_redelivery_by_a_mover_wakes_who_waits(
    server: Server, wire: Wire, waiter: Wire, queue: str, processes: list[Process]
) -> None:
    message_id = wire.publish(queue)
    wire.request("GET", f"/{queue}/messages?visibility=0.3")
    begin_to_wait(server, waiter, queue)

    processes.append(start_mover(server.root))

    assert_got(waiter.answer(), message_id, "2")


def test_another_server_wakes_who_waits(
    server: Server, connect: Connect, waiter: Wire, queue: str, start_server: Callable[..., Server]
) -> None:
    other = connect(start_server(root=server.root))
    begin_to_wait(server, waiter, queue)

    message_id = other.publish(queue)

    assert_got(waiter.answer(), message_id)


def test_a_move_by_a_person_wakes_who_waits(
    server: Server, wire: Wire, waiter: Wire, queue: str
) -> None:
    message_id = wire.publish(queue)
    hidden = delay(server.root, queue, message_id)
    begin_to_wait(server, waiter, queue)

    hidden.rename(server.root / "queues" / queue / message_id)

    assert_got(waiter.answer(), message_id)


def test_waiters_are_served_in_the_order_in_which_they_came(
    wire: Wire, queue: str, line_up: LineUp
) -> None:
    wires = line_up(queue, 20)

    ids = [wire.publish(queue) for _ in wires]

    assert [each.answer().headers["x-message-id"] for each in wires] == ids


def test_waiters_are_served_in_order_also_when_messages_come_at_once(
    wire: Wire, queue: str, line_up: LineUp
) -> None:
    wires = line_up(queue, 20)

    wire.send(request_bytes("POST", f"/{queue}/messages", b"body") * 20)

    ids = [wire.answer().headers["x-message-id"] for _ in wires]
    assert [each.answer().headers["x-message-id"] for each in wires] == ids


def test_who_does_not_wait_does_not_overtake(
    server: Server, connect: Connect, wire: Wire, waiter: Wire, queue: str
) -> None:
    begin_to_wait(server, waiter, queue)
    publish = request_bytes("POST", f"/{queue}/messages", b"body")

    wire.send(publish + request_bytes("GET", f"/{queue}/messages"))

    published, received = wire.answer(), wire.answer()
    assert_got(waiter.answer(), published.headers["x-message-id"])
    assert received.status == 204


def test_what_waiters_leave_is_for_everybody(
    server: Server, wire: Wire, waiter: Wire, queue: str
) -> None:
    begin_to_wait(server, waiter, queue)
    first, second = wire.publish(queue), wire.publish(queue)

    assert_got(waiter.answer(), first)
    assert_got(wire.receive(queue), second)


def test_a_message_that_is_there_is_answered_without_waiting(
    server: Server, wire: Wire, waiter: Wire, queue: str
) -> None:
    message_id = wire.publish(queue)

    begin_to_wait(server, waiter, queue)

    assert_got(waiter.answer(), message_id)


@pytest.mark.parametrize("leave", [Wire.close, Wire.reset], ids=["fin", "rst"])
def test_a_waiter_that_left_never_eats_a_message(
    server: Server, wire: Wire, queue: str, line_up: LineUp, leave: Callable[[Wire], None]
) -> None:
    *gone, waiter = line_up(queue, 11)
    for each in gone:
        leave(each)

    message_id = wire.publish(queue)

    assert_got(waiter.answer(), message_id)
    for each in gone:
        wait_until_closed(server, each.local_port)
    assert wire.count(queue) == (0, 1)


def test_a_waiter_that_leaves_as_its_message_comes_never_eats_it(
    server: Server, wire: Wire, queue: str, line_up: LineUp
) -> None:
    for _ in range(20):
        [gone] = line_up(queue, 1)
        # The message and the end are there before the server sees either.
        server.popen.send_signal(signal.SIGSTOP)
        wire.send(request_bytes("POST", f"/{queue}/messages", b"body"))
        gone.reset()
        server.popen.send_signal(signal.SIGCONT)
        message_id = wire.answer().headers["x-message-id"]

        wait_until(lambda: wire.count(queue) == (1, 0))
        assert_got(wire.receive(queue), message_id)
        assert wire.remove(queue, message_id).status == 202


def test_waiters_of_one_queue_know_nothing_of_another(
    server: Server, wire: Wire, waiter: Wire, queue: str
) -> None:
    other = make_queue(wire)
    begin_to_wait(server, waiter, queue)

    other_id = wire.publish(other)
    message_id = wire.publish(queue)

    assert_got(waiter.answer(), message_id)
    assert_got(wire.receive(other), other_id)


def test_visibility_goes_with_wait(server: Server, wire: Wire, waiter: Wire, queue: str) -> None:
    begin_to_wait(server, waiter, queue, "&visibility=3600")

    wire.publish(queue)

    visible = datetime.fromisoformat(waiter.answer().headers["x-visible-at"])
    assert visible - datetime.now(UTC) > timedelta(seconds=3000)
