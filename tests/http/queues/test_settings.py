"""PUT /QUEUE?name=value: two servers and a mover on one root agree on every setting."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.messages import pass_a_tick
from tests.support.processes import IMPATIENT, Server, start_mover, wait_until
from tests.support.wire import Wire, WireAnswer, assert_problem, begin_to_wait, make_queue, take

ALL = (
    "visibility=60&delay=5&max-receives=5&dead-letters=orders.failed&max-messages=100000"
    "&ttl=345600&paused=true&also=bills"
)


class BothWires(NamedTuple):
    """A connection to each of two servers on one root, whose flags differ."""

    first: Wire
    second: Wire


@pytest.fixture(scope="module")
def servers(start_shared: Callable[..., Server]) -> Iterator[tuple[Server, Server]]:
    first = start_shared("--visibility=0.3")
    second = start_shared(
        f"--root={first.root}", "--visibility=500", "--max-receives=50", "--max-queue-messages=50"
    )
    mover = start_mover(first.root)
    yield first, second
    mover.kill()


@pytest.fixture
def eager(start_server: Callable[..., Server], connect: Callable[[Server], Wire]) -> BothWires:
    """Two other servers, which look for what is too old all the time."""
    return BothWires(*(connect(start_server(module=IMPATIENT)) for _ in range(2)))


@pytest.fixture
def pair(servers: tuple[Server, Server], connect: Callable[[Server], Wire]) -> BothWires:
    return BothWires(*map(connect, servers))


@pytest.fixture
def queue(pair: BothWires) -> str:
    return make_queue(pair.first)


def set_to(pair: BothWires, queue: str, query: str) -> None:
    """Change settings by one server, and wait for the other one, which knew the queue before."""
    assert pair.second.request("GET", f"/{queue}/messages").status == 204
    assert pair.first.request("PUT", f"/{queue}?{query}").status == 200


def settings(wire: Wire, queue: str) -> dict[str, object]:
    found: dict[str, object] = wire.request("GET", f"/{queue}").json()["settings"]
    return found


def visible_at(answer: WireAnswer) -> float:
    """Return when a message becomes visible, in seconds since 1970."""
    return datetime.fromisoformat(answer.headers["x-visible-at"]).timestamp()


def test_a_queue_is_made_with_its_settings(pair: BothWires, queue: str) -> None:
    pair.first.request("PUT", "/bills")
    answer = pair.first.request("PUT", f"/{queue}-new?{ALL}")

    assert answer.status == 201
    assert answer.headers["location"] == f"/{queue}-new"
    assert settings(pair.second, f"{queue}-new") == {
        "visibility": 60, "delay": 5, "max-receives": 5, "dead-letters": "orders.failed",
        "max-messages": 100_000, "ttl": 345_600, "paused": True, "also": "bills",
    }  # fmt: skip


def test_settings_are_changed_one_by_one_and_taken_back(pair: BothWires, queue: str) -> None:
    assert settings(pair.first, queue) == {}
    pair.first.request("PUT", f"/{queue}?delay=5&ttl=60")
    pair.second.request("PUT", f"/{queue}?visibility=0.5&ttl=")
    assert settings(pair.first, queue) == {"delay": 5, "visibility": 0.5}

    assert pair.first.request("PUT", f"/{queue}").status == 200

    assert settings(pair.second, queue) == {"delay": 5, "visibility": 0.5}


@pytest.mark.parametrize(
    "query",
    ["?colour=red", "?delay=5&visibility=0", "?delay=1&delay=2", "?dead-letters=a/b", "?paused",
     "?paused=yes", "?ttl=-1", "?max-receives=1e3", "?=1", "?Delay=5", "?delay=5&purge"],
)  # fmt: skip
def test_a_wrong_parameter_changes_nothing_and_makes_nothing(
    pair: BothWires, servers: tuple[Server, Server], queue: str, query: str
) -> None:
    pair.first.request("PUT", f"/{queue}?delay=7")

    assert_problem(pair.first.request("PUT", f"/{queue}{query}"), 400, "invalid-request")
    assert_problem(pair.first.request("PUT", f"/{queue}-no{query}"), 400, "invalid-request")
    assert not (servers[0].root / "queues" / f"{queue}-no").exists()
    assert settings(pair.first, queue) == {"delay": 7}


def test_visibility_counts_where_a_receiver_does_not_say(pair: BothWires, queue: str) -> None:
    for _ in range(4):
        pair.first.publish(queue)
    pair.first.request("PUT", f"/{queue}?visibility=100")

    for wire in pair:
        begun = time.time()
        by_default = wire.receive(queue)
        asked = wire.request("GET", f"/{queue}/messages?visibility=50")
        for answer, seconds in ((by_default, 100), (asked, 50)):
            visible = visible_at(answer)
            assert begun + seconds <= visible <= time.time() + seconds
    message_id = pair.first.publish(queue)
    visible = visible_at(take(pair.second, queue, message_id))
    assert begun + 100 <= visible <= time.time() + 100


def test_visibility_taken_back_is_that_of_each_server(pair: BothWires, queue: str) -> None:
    set_to(pair, queue, "visibility=100")
    set_to(pair, queue, "visibility=")
    pair.first.publish(queue)

    def is_the_flag() -> bool:
        answer = pair.second.receive(queue)
        if answer.status == 204:
            return False
        visible = visible_at(answer)
        pair.second.request("GET", f"/{queue}/messages?id={answer.headers['x-message-id']}"
                            "&visibility=0")  # fmt: skip
        return visible > time.time() + 400

    wait_until(is_the_flag)


def test_delay_counts_where_a_producer_does_not_say(pair: BothWires, queue: str) -> None:
    set_to(pair, queue, "delay=100")

    def is_delayed() -> bool:
        answer = pair.second.request("POST", f"/{queue}/messages", b"body")
        pair.second.receive(queue)
        return "x-visible-at" in answer.headers

    wait_until(is_delayed)
    before = pair.first.count(queue)[0]
    for target, body, headers in (
        ("", b"small", {}),
        ("", b"large" * 20_000, {}),
        ("", b"own id", {"x_message_id": "own"}),
        ("?batch", b'{"body": "a line"}\n', {"content_type": "application/x-ndjson"}),
    ):
        answer = pair.first.request("POST", f"/{queue}/messages{target}", body, **headers)
        assert answer.status == 201
    assert pair.first.count(queue)[0] == before
    pair.second.request("POST", f"/{queue}/messages?delay=0", b"now")
    lines = b'{"body": "now", "delay": 0}\n'
    pair.first.request(
        "POST", f"/{queue}/messages?batch", lines, content_type="application/x-ndjson"
    )
    assert pair.first.count(queue)[0] == before + 2


def test_max_receives_counts_for_servers_and_mover(pair: BothWires, queue: str) -> None:
    set_to(pair, queue, f"max-receives=2&dead-letters={queue}.failed")
    released, ran_out = pair.first.publish(queue), pair.first.publish(queue)

    def dead() -> set[str]:
        for wire in pair:
            answer = wire.request("GET", f"/{queue}/messages?visibility=0.2")
            if answer.headers.get("x-message-id") == released:
                take(wire, queue, released, "&visibility=0")
        found = pair.second.request("GET", f"/{queue}.failed/messages?peek&max=10")
        return {line.split('"')[3] for line in found.body.decode().splitlines()}

    wait_until(lambda: dead() == {released, ran_out}, 20)
    assert pair.first.request("GET", f"/{queue}.dead").status == 404
    assert pair.second.count(queue) == (0, 0)


def test_max_messages_counts_for_both(pair: BothWires, queue: str) -> None:
    set_to(pair, queue, "max-messages=2")
    pair.first.publish(queue)
    pair.first.publish(queue)

    refused = pair.first.request("POST", f"/{queue}/messages", b"body")

    assert_problem(refused, 503, "unavailable", "setting max-messages")
    wait_until(lambda: pair.second.request("POST", f"/{queue}/messages", b"b").status == 503)
    pair.first.request("PUT", f"/{queue}?max-messages=0")
    wait_until(lambda: pair.second.request("POST", f"/{queue}/messages", b"b").status == 201)
    for _ in range(60):  # the second server's flag says 50
        pair.second.publish(queue)


def test_a_message_that_is_too_old_is_given_to_nobody(
    pair: BothWires, servers: tuple[Server, Server], queue: str
) -> None:
    set_to(pair, queue, "ttl=1")
    names, published = {f"{queue}:{pair.first.publish(queue)}" for _ in range(3)}, time.time()
    wait_until(lambda: time.time() > published + 1.1)

    assert pair.first.receive(queue).status == 204
    assert pair.second.receive(queue).status == 204

    assert names <= {*os.listdir(servers[0].root / "remove")}


def test_what_nobody_asks_for_is_removed_when_it_is_too_old(eager: BothWires, root: Path) -> None:
    wire, queue = eager.first, make_queue(eager.first)
    wire.request("PUT", f"/{queue}?ttl=0.5")
    names = {f"{queue}:{wire.publish(queue)}" for _ in range(250)}

    wait_until(lambda: wire.count(queue) == (0, 0), 20)

    assert names <= {*os.listdir(root / "remove")}


def test_by_id_a_message_that_is_too_old_is_not_there(pair: BothWires, queue: str) -> None:
    message_id = pair.first.publish(queue)
    pair.first.request("PUT", f"/{queue}?ttl=0.000001")
    pass_a_tick()

    assert_problem(take(pair.first, queue, message_id), 404, "message-not-found")


def test_a_lease_outlives_the_time_of_its_message(eager: BothWires) -> None:
    wire, queue = eager.first, make_queue(eager.first)
    message_id = wire.publish(queue)
    etag = wire.receive(queue).headers["etag"]
    wire.publish(queue)
    wire.request("PUT", f"/{queue}?ttl=0.2")
    wait_until(lambda: [each.count(queue) for each in eager] == [(0, 1)] * 2, 20)

    assert take(wire, queue, message_id, "&visibility=50", if_match=etag).status == 200
    assert wire.remove(queue, message_id, if_match=etag).status == 202


def test_a_paused_queue_gives_nothing_out_and_takes_everything(
    pair: BothWires, servers: tuple[Server, Server], queue: str, connect: Callable[[Server], Wire]
) -> None:
    leased = pair.first.publish(queue)
    etag = pair.first.request("GET", f"/{queue}/messages?visibility=100").headers["etag"]
    set_to(pair, queue, "paused=true")
    waiters = [connect(server) for server in servers]
    wait_until(lambda: pair.second.publish(queue) and pair.second.receive(queue).status == 204)
    for server, waiter in zip(servers, waiters, strict=True):
        begin_to_wait(server, waiter, queue)

    for wire in pair:
        wire.publish(queue)
        assert wire.receive(queue).status == 204
        assert wire.request("GET", f"/{queue}/messages?max=10").status == 204
        assert wire.request("GET", f"/{queue}/messages?wait=0.1").status == 204
        assert wire.request("GET", f"/{queue}/messages?peek").status == 200
    assert take(pair.first, queue, leased, "&visibility=50", if_match=etag).status == 200
    assert pair.second.remove(queue, leased, if_match=etag).status == 202

    pair.first.request("PUT", f"/{queue}?paused=false")

    for waiter in waiters:
        assert waiter.answer().status == 200


def test_a_person_may_edit_the_file(
    pair: BothWires, servers: tuple[Server, Server], queue: str
) -> None:
    path = servers[0].root / "queues" / queue / ".settings"
    path.write_text("paused=true\n")
    for wire in pair:
        wait_until(lambda: wire.stock(queue).receive(queue).status == 204)

    path.write_text("paused=perhaps\n")

    for server, wire in zip(servers, pair, strict=True):
        wait_until(lambda: wire.stock(queue).receive(queue).status == 200)
        wait_until(lambda: wire.receive(queue) and f"queues/{queue}/.settings" in server.log())
    assert settings(pair.first, queue) == {}


def test_a_queue_that_is_made_again_has_no_settings(pair: BothWires, queue: str) -> None:
    set_to(pair, queue, "paused=true&delay=5")
    assert pair.second.request("DELETE", f"/{queue}").status == 200
    assert pair.second.request("PUT", f"/{queue}").status == 201

    pair.second.publish(queue)

    assert pair.second.receive(queue).status == 200
    assert settings(pair.first, queue) == {}
    wait_until(lambda: pair.first.publish(queue) and pair.first.receive(queue).status == 200)
