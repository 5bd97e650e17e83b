"""4.4 POST /QUEUE/messages?delay=S"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.messages import read_seal
from tests.support.processes import Server, wait_until
from tests.support.wire import (
    SMALL_BODY_BYTES,
    Wire,
    assert_problem,
    files_of,
    make_queue,
    request_bytes,
    take,
)

YEAR_SECONDS = 365 * 86_400
BAD_DELAYS = [
    "",
    "-1",
    "nan",
    "inf",
    "1e3",
    "1e999",
    "+1",
    "1_0",
    "%201",
    "0x1",
    str(YEAR_SECONDS + 1),
]


def delay(wire: Wire, queue: str, seconds: str, body: bytes = b"later") -> dict[str, str]:
    answer = wire.request("POST", f"/{queue}/messages?delay={seconds}", body)
    assert answer.status == 201
    return answer.headers


def seconds_from_now(time_text: str) -> float:
    return (datetime.fromisoformat(time_text) - datetime.now(UTC)).total_seconds()


@pytest.mark.parametrize("size", [5, 3 * SMALL_BODY_BYTES])
def test_a_delayed_message_is_hidden_and_goes_straight_to_delay(
    server: Server, wire: Wire, queue: str, size: int
) -> None:
    headers = delay(wire, queue, "3600", b"b" * size)

    assert files_of(server, queue) == [f"delay/{queue}:{headers['x-message-id']}"]
    assert wire.receive(queue).status == 204
    info = wire.request("GET", f"/{queue}").json()
    assert (info["ready"], info["leased"], info["delayed"]) == (0, 0, 1)
    assert 3590 < seconds_from_now(headers["x-visible-at"]) <= 3600


def test_one_that_is_sent_again_says_until_when_it_is_hidden(wire: Wire, queue: str) -> None:
    def send() -> tuple[int, str | None]:
        target = f"/{queue}/messages?delay=3600"
        answer = wire.request("POST", target, b"later", x_message_id="mine")
        return answer.status, answer.headers.get("x-visible-at")

    _, visible_at = send()

    assert visible_at is not None
    assert send() == (200, visible_at)
    take(wire, queue, "mine")
    assert send() == (200, None)
    assert wire.request("GET", f"/{queue}/messages?id=mine&visibility=0").status == 204
    assert send() == (200, None)


def test_a_delay_may_last_a_year_and_the_stamp_says_until_when(
    server: Server, wire: Wire, queue: str
) -> None:
    headers = delay(wire, queue, str(YEAR_SECONDS))

    status = (server.root / "delay" / f"{queue}:{headers['x-message-id']}").stat()
    due = datetime.fromisoformat(headers["x-visible-at"]).timestamp()
    assert status.st_mtime_ns // 1000 == round(due * 1_000_000)
    assert YEAR_SECONDS - 10 < due - time.time() <= YEAR_SECONDS


def test_a_delayed_message_comes_when_its_delay_is_over_and_counts_no_receive(
    hasty: Wire,
) -> None:
    queue = make_queue(hasty)
    due = datetime.fromisoformat(delay(hasty, queue, "0.2")["x-visible-at"]).timestamp()

    wait_until(lambda: hasty.count(queue) == (1, 0))

    assert time.time() >= due
    assert hasty.receive(queue).headers["x-receive-count"] == "1"


def test_no_delay_is_no_delay(server: Server, wire: Wire, queue: str) -> None:
    headers = delay(wire, queue, "0")

    assert "x-visible-at" not in headers
    assert files_of(server, queue) == [f"queues/{queue}/{headers['x-message-id']}"]


def test_a_delayed_message_keeps_its_place_in_the_order(hasty: Wire) -> None:
    queue = make_queue(hasty)
    first = delay(hasty, queue, "0.1")["x-message-id"]
    second = hasty.publish(queue)
    wait_until(lambda: hasty.count(queue) == (2, 0))

    hasty.send(request_bytes("GET", f"/{queue}/messages?visibility=60") * 2)
    assert [hasty.answer().headers["x-message-id"] for _ in range(2)] == [first, second]


def test_a_delayed_message_can_be_removed(server: Server, wire: Wire, queue: str) -> None:
    message_id = delay(wire, queue, "3600")["x-message-id"]

    assert wire.remove(queue, message_id).status == 202

    assert files_of(server, queue) == [f"remove/{queue}:{message_id}"]


def test_deleting_a_queue_takes_delayed_messages_along(
    server: Server, wire: Wire, queue: str
) -> None:
    delay(wire, queue, "3600")

    assert wire.request("DELETE", f"/{queue}").status == 200

    (deleted,) = files_of(server, queue)
    assert deleted.startswith(f"remove/{queue}:.")


@pytest.mark.parametrize("seconds", BAD_DELAYS)
def test_a_bad_delay_is_400_and_named(server: Server, wire: Wire, queue: str, seconds: str) -> None:
    answer = wire.request("POST", f"/{queue}/messages?delay={seconds}", b"b")

    assert_problem(answer, 400, "invalid-request", "delay")
    assert files_of(server, queue) == []


def test_a_delay_given_twice_is_400(wire: Wire, queue: str) -> None:
    answer = wire.request("POST", f"/{queue}/messages?delay=1&delay=1", b"b")

    assert_problem(answer, 400, "invalid-request", "'delay' is given twice")


def test_a_server_killed_before_delivery_leaves_a_message_that_knows_its_delay(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire], root: Path
) -> None:
    """What a kill between the barrier and the rename leaves, by hand: the rename undone."""
    server = start_server()
    wire = connect(server)
    queue = make_queue(wire)
    headers = delay(wire, queue, "3600")
    os.kill(server.popen.pid, signal.SIGKILL)
    server.popen.wait()
    name = f"{queue}:{headers['x-message-id']}"
    (root / "delay" / name).rename(root / "new" / name)

    start_server()

    status = (root / "delay" / name).stat()
    assert status.st_mtime_ns > status.st_ctime_ns
    assert 3500 < status.st_mtime - time.time() < 3600
    assert read_seal(root / "delay" / name).lease == 0
