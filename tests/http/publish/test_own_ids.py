"""4.4 POST /QUEUE/messages with X-Message-Id: published once, however often it is sent."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.lifecycle import Actor
from mq.names import MessageId, QueueName
from mq.spool.message.seal import SEAL_ATTRIBUTE
from mq.spool.root import visit_root
from mq.store.publishing.twins import lock_ids
from tests.support.processes import Server, wait_until
from tests.support.wire import (
    SMALL_BODY_BYTES,
    Wire,
    WireAnswer,
    assert_problem,
    files_of,
    make_queue,
)

_V1_IN_CAPITALS = "8AE3479C-E5AC-11F1-89A0-02FC00000001"

both_sizes = pytest.mark.parametrize("size", [5, 3 * SMALL_BODY_BYTES], ids=["small", "large"])


def send(wire: Wire, queue: str, message_id: str, body: bytes = b"body", /) -> WireAnswer:
    return wire.request("POST", f"/{queue}/messages", body, x_message_id=message_id)


def send_status(port: int, queue: str, message_id: str, body: bytes) -> int:
    wire = Wire(port)
    try:
        return send(wire, queue, message_id, body).status
    finally:
        wire.close()


@pytest.mark.parametrize("message_id", ["1", "A-z", "x" * 64, _V1_IN_CAPITALS, "-"])
def test_a_message_is_published_under_its_producers_id(
    wire: Wire, queue: str, message_id: str
) -> None:
    answer = send(wire, queue, message_id, b"mine")

    assert answer.status == 201
    assert answer.headers["x-message-id"] == message_id
    assert answer.headers["location"] == f"/{queue}/messages/{message_id}"
    received = wire.receive(queue)
    assert (received.headers["x-message-id"], received.body) == (message_id, b"mine")


@pytest.mark.parametrize("message_id", ["", "a b", "a/b", "a:b", "x" * 65, "caf\xe9", "a,b", ".a"])
def test_an_id_that_is_none_is_400(server: Server, wire: Wire, queue: str, message_id: str) -> None:
    assert_problem(send(wire, queue, message_id), 400, "invalid-name", "message id")
    assert files_of(server, queue) == []


def test_an_id_given_twice_is_400(wire: Wire, queue: str) -> None:
    wire.send(
        f"POST /{queue}/messages HTTP/1.1\r\nHost: mq\r\nX-Message-Id: a\r\nX-Message-Id: b\r\n"
        "Content-Length: 1\r\n\r\nb".encode()
    )

    assert_problem(wire.answer(), 400, "invalid-request", "X-Message-Id")


@both_sizes
def test_sent_again_it_is_200_and_stored_once(
    server: Server, wire: Wire, queue: str, size: int
) -> None:
    body = b"b" * size
    assert send(wire, queue, "one", body).status == 201

    again = send(wire, queue, "one", body)

    assert again.status == 200
    assert again.headers["x-message-id"] == "one"
    assert files_of(server, queue) == [f"queues/{queue}/one"]


@both_sizes
@pytest.mark.parametrize("other", [b"longer than the first", b"ydob", b""])
def test_another_body_under_the_same_id_is_409(
    server: Server, wire: Wire, queue: str, size: int, other: bytes
) -> None:
    send(wire, queue, "one", b"body" * size)

    answer = send(wire, queue, "one", other * size)

    assert_problem(answer, 409, "id-taken", "one")
    assert files_of(server, queue) == [f"queues/{queue}/one"]
    assert wire.receive(queue).body == b"body" * size


def test_an_id_is_compared_as_it_is(wire: Wire, queue: str) -> None:
    assert [send(wire, queue, each).status for each in ("abc", "ABC", "abc")] == [201, 201, 200]


def test_the_same_id_in_another_queue_is_another_message(wire: Wire, queue: str) -> None:
    other = make_queue(wire)

    assert [send(wire, each, "one").status for each in (queue, other)] == [201, 201]


def test_a_leased_a_delayed_and_a_removed_message_are_found(wire: Wire, queue: str) -> None:
    send(wire, queue, "leased")
    wire.receive(queue)
    wire.request("POST", f"/{queue}/messages?delay=100", b"body", x_message_id="delayed")
    send(wire, queue, "removed")
    wire.remove(queue, "removed")

    for message_id in ("leased", "delayed", "removed"):
        assert send(wire, queue, message_id).status == 200
        assert_problem(send(wire, queue, message_id, b"other"), 409, "id-taken")
    assert wire.count(queue) == (0, 1)


@pytest.mark.parametrize(
    "place",
    [
        "queues/{queue}.dead/one",
        "delay/{queue}.dead:one",
        "new/{queue}:one",
        "spark/claims/{queue}/7/3/{queue}:one",
        "spark/claims/{queue}/8.open.driver/{queue}:one",
        "remove/{queue}:.7/3/{queue}:one",
        "spark/archive/{queue}/6/0/{queue}:one",
        "spark/claims/{queue}/7/3/{queue}.dead:one",
        "spark/claims/{queue}/8.open.driver/0/{queue}.dead:one",
        "remove/{queue}:.7/3/{queue}.dead:one",
        "spark/archive/{queue}/6/0/{queue}.dead:one",
    ],
)
def test_it_is_found_wherever_it_can_be(server: Server, wire: Wire, queue: str, place: str) -> None:
    wire.request("PUT", f"/{queue}.dead")
    send(wire, queue, "one")
    group = server.root / "spark/claims" / queue
    group.mkdir(parents=True)
    (group / "floor.7").touch()
    path = server.root / place.format(queue=queue)
    path.parent.mkdir(parents=True, exist_ok=True)
    (server.root / "queues" / queue / "one").rename(path)

    assert send(wire, queue, "one").status == 200

    assert_problem(send(wire, queue, "one", b"other"), 409, "id-taken")


def test_once_it_is_reaped_the_id_is_free_again(server: Server, wire: Wire, queue: str) -> None:
    send(wire, queue, "one")
    wire.remove(queue, "one")
    (server.root / "remove" / f"{queue}:one").unlink()

    assert send(wire, queue, "one", b"other").status == 201


def test_a_queue_made_again_knows_no_id_of_the_old_one(wire: Wire, queue: str) -> None:
    for message_id in ("leased", "removed", "ready"):
        send(wire, queue, message_id)
    wire.receive(queue)
    wire.remove(queue, "removed")
    wire.request("DELETE", f"/{queue}")
    wire.request("PUT", f"/{queue}")

    for message_id in ("leased", "removed", "ready"):
        assert send(wire, queue, message_id, b"other").status == 201


@pytest.mark.parametrize(
    "place", ["spark/claims/{group}/8/0", "remove/{group}:.7/0", "spark/archive/{group}/7/0"]
)
def test_a_queue_made_again_knows_no_id_that_spark_took_from_the_old_one(
    server: Server, wire: Wire, queue: str, place: str
) -> None:
    group = server.root / "spark/claims" / queue
    group.mkdir(parents=True)
    (group / "floor.7").touch()
    folder = server.root / place.format(group=queue)
    folder.mkdir(parents=True)
    send(wire, queue, "one")
    (server.root / "queues" / queue / "one").rename(folder / f"{queue}:one")
    wire.request("DELETE", f"/{queue}")
    wire.request("PUT", f"/{queue}")

    assert send(wire, queue, "one", b"other").status == 201

    assert wire.receive(queue).body == b"other"


@both_sizes
def test_one_without_a_seal_is_compared_by_its_body(
    server: Server, wire: Wire, queue: str, size: int
) -> None:
    (server.root / "queues" / queue / "one").write_bytes(b"body" * size)

    assert send(wire, queue, "one", b"body" * size).status == 200
    same_length = send(wire, queue, "one", b"ydob" * size)
    assert_problem(same_length, 409, "id-taken", "another body of the same length;")
    assert_problem(send(wire, queue, "one", b"bod" * size), 409, "id-taken")


def test_a_torn_leftover_of_a_crash_counts_for_none(server: Server, wire: Wire, queue: str) -> None:
    send(wire, queue, "one")
    ready = server.root / "queues" / queue / "one"
    seal = os.getxattr(ready, SEAL_ATTRIBUTE)
    ready.unlink()
    torn = server.root / "new" / f"{queue}:one"
    torn.touch()
    os.setxattr(torn, SEAL_ATTRIBUTE, seal)

    # A sweep of the server may come first; it sets the leftover aside as well.
    assert send(wire, queue, "one").status == 201

    assert wire.receive(queue).body == b"body"
    wait_until((server.root / "corrupt" / f"{queue}:one").exists)


def test_a_leftover_of_a_crash_is_written_again_before_it_counts(
    server: Server, wire: Wire, queue: str
) -> None:
    """It may be in memory alone, however often it is synced."""
    send(wire, queue, "one")
    ready = server.root / "queues" / queue / "one"
    inode = ready.stat().st_ino
    ready.rename(server.root / "new" / f"{queue}:one")

    assert send(wire, queue, "one").status == 200

    assert ready.stat().st_ino != inode
    assert wire.receive(queue).body == b"body"


def test_an_id_of_another_publish_under_way_is_waited_for(
    server: Server, wire: Wire, queue: str
) -> None:
    """The lock of an id that another process holds: the answer comes when it is free."""
    spool = visit_root(server.root, Files(), Actor.SERVER)
    lock = lock_ids(spool, QueueName(queue), [MessageId("one")])
    assert lock is not None
    with ThreadPoolExecutor() as threads:
        sent = threads.submit(send_status, server.port, queue, "one", b"body")
        wait_until(lambda: wire.request("GET", f"/{queue}").status == 200)
        assert send(wire, queue, "two").status == 201
        assert not sent.done()

        os.close(lock)

        assert sent.result(10) == 201
    spool.close()


def test_64_at_once_on_two_servers_store_one(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire], root: Path
) -> None:
    servers = [start_server(), start_server()]
    queue = make_queue(connect(servers[0]))

    for round_number in range(3):
        message_id = f"id-{round_number}"
        with ThreadPoolExecutor(64) as threads:
            statuses = list(
                threads.map(
                    lambda n, message_id=message_id: send_status(
                        servers[n % 2].port, queue, message_id, b"body"
                    ),
                    range(64),
                )
            )

        assert sorted(statuses) == [200] * 63 + [201]
    assert files_of(servers[0], queue) == [f"queues/{queue}/id-{n}" for n in range(3)]


def test_of_two_bodies_at_once_one_wins_and_the_other_is_409(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire], root: Path
) -> None:
    servers = [start_server(), start_server()]
    queue = make_queue(connect(servers[0]))

    with ThreadPoolExecutor(32) as threads:
        statuses = list(
            threads.map(
                lambda n: send_status(servers[n % 2].port, queue, "one", b"%d" % (n % 4)),
                range(32),
            )
        )

    assert sorted(statuses) == [200] * 7 + [201] + [409] * 24
    assert files_of(servers[0], queue) == [f"queues/{queue}/one"]
