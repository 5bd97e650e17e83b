"""Dead letters: what was received too often goes to QUEUE.dead, however it comes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.processes import Process, Server, start_mover, wait_until
from tests.support.wire import WAIT_TEST_SECONDS, Wire, make_queue, take


@pytest.fixture(scope="module")
def strict_server(start_shared: Callable[..., Server]) -> Server:
    """Buries what was received three times."""
    return start_shared("--max-receives=3")


@pytest.fixture
def strict(strict_server: Server, connect: Callable[[Server], Wire]) -> Wire:
    return connect(strict_server)


@pytest.mark.parametrize("size", [4, 600_000])
@pytest.mark.parametrize("guarded", [False, True])
def test_a_consumer_that_always_releases_gets_there_too(
    strict: Wire, size: int, guarded: bool
) -> None:
    queue = make_queue(strict)
    message_id = strict.publish(queue, b"b" * size, content_type="text/plain")
    published = ""
    for count in ("1", "2", "3"):
        taken = strict.receive(queue)
        assert taken.headers["x-receive-count"] == count
        published = taken.headers["x-published-at"]
        headers = {"if_match": taken.headers["etag"]} if guarded else {}
        assert take(strict, queue, message_id, "&visibility=0", **headers).status == 204

    assert strict.receive(queue).status == 204
    dead = strict.request("GET", f"/{queue}.dead/messages?peek")
    assert dead.body == b"b" * size
    assert dead.headers["x-message-id"] == message_id
    assert dead.headers["content-type"] == "text/plain"
    assert dead.headers["x-receive-count"] == "3"
    assert dead.headers["x-published-at"] == published


def test_the_mover_buries_what_the_server_would(
    strict_server: Server, strict: Wire, processes: list[Process]
) -> None:
    processes.append(start_mover(strict_server.root, "--max-receives=3"))
    queue = make_queue(strict)
    message_id = strict.publish(queue)
    for _ in range(3):
        wait_until(lambda: strict.count(queue) == (1, 0))
        strict.request("GET", f"/{queue}/messages?visibility=0.05")

    wait_until(lambda: strict.request("GET", f"/{queue}.dead").status == 200)
    wait_until(lambda: strict.count(f"{queue}.dead") == (1, 0))
    dead = strict.receive(f"{queue}.dead")
    assert dead.headers["x-message-id"] == message_id
    assert dead.headers["x-receive-count"] == "4"


def test_a_dead_letter_does_not_die_again(strict: Wire) -> None:
    queue = make_queue(strict)
    message_id = strict.publish(queue)
    for _ in range(3):
        strict.receive(queue)
        take(strict, queue, message_id, "&visibility=0")

    for count in ("4", "5"):
        taken = strict.receive(f"{queue}.dead")
        assert taken.headers["x-receive-count"] == count
        take(strict, f"{queue}.dead", message_id, "&visibility=0")
    assert strict.request("GET", f"/{queue}.dead.dead").status == 404


def test_receives_by_id_count_as_well(strict: Wire) -> None:
    queue = make_queue(strict)
    message_id = strict.publish(queue)
    for _ in range(3):
        take(strict, queue, message_id)

    take(strict, queue, message_id, "&visibility=0")

    assert strict.count(f"{queue}.dead") == (1, 0)


def test_heartbeats_do_not_count(strict: Wire) -> None:
    queue = make_queue(strict)
    message_id = strict.publish(queue)
    etag = strict.receive(queue).headers["etag"]
    for _ in range(5):
        assert take(strict, queue, message_id, if_match=etag).status == 200

    take(strict, queue, message_id, "&visibility=0", if_match=etag)

    assert strict.receive(queue).headers["x-receive-count"] == "2"


def test_a_release_wakes_who_waits_for_dead_letters(
    strict_server: Server, strict: Wire, connect: Callable[[Server], Wire]
) -> None:
    queue = make_queue(strict)
    strict.request("PUT", f"/{queue}.dead")
    message_id = strict.publish(queue)
    for _ in range(3):
        take(strict, queue, message_id)
    waiter = connect(strict_server)
    waiter.socket.settimeout(WAIT_TEST_SECONDS)
    waiter.send(b"GET /%b.dead/messages?wait=60 HTTP/1.1\r\nHost: mq\r\n\r\n" % queue.encode())

    take(strict, queue, message_id, "&visibility=0")

    assert waiter.answer().headers["x-message-id"] == message_id


def test_what_is_never_received_to_the_end_is_never_buried(
    strict_server: Server, strict: Wire
) -> None:
    """A receive whose client left is taken back from the count, so it buries nothing."""
    queue = make_queue(strict)
    message_id = strict.publish(queue, b"b" * 20_000_000)
    for _ in range(5):
        gone = Wire(strict_server.port)
        gone.send(b"GET /%b/messages HTTP/1.1\r\nHost: mq\r\n\r\n" % queue.encode())
        assert gone.socket.recv(100_000).startswith(b"HTTP/1.1 200 OK")
        gone.reset()
        wait_until(lambda: strict.count(queue) == (1, 0))

    assert strict.receive(queue).headers["x-message-id"] == message_id


def test_an_own_id_among_dead_letters_of_another_name_is_not_published_again(strict: Wire) -> None:
    queue = make_queue(strict)
    strict.request("PUT", f"/{queue}?max-receives=1&dead-letters={queue}.failed")
    strict.publish(queue, b"body", x_message_id="own")
    strict.receive(queue)
    assert take(strict, queue, "own", "&visibility=0").status == 204
    assert strict.count(f"{queue}.failed") == (1, 0)

    answer = strict.request("POST", f"/{queue}/messages", b"body", x_message_id="own")

    assert answer.status == 200
    assert strict.count(queue) == (0, 0)


@pytest.mark.parametrize("is_hidden", [False, True])
def test_two_queues_share_their_dead_letters_and_have_one_id_in_common(
    strict: Wire, is_hidden: bool
) -> None:
    """Copies have, too. The second goes to `.dead` of its own queue."""
    queues = make_queue(strict), make_queue(strict)
    dead = make_queue(strict)
    for queue in queues:
        strict.request("PUT", f"/{queue}?max-receives=1&dead-letters={dead}")
        strict.publish(queue, queue.encode(), x_message_id="job-1")
    first, second = queues
    strict.receive(first)
    assert take(strict, first, "job-1", "&visibility=0").status == 204
    if is_hidden:
        assert strict.receive(dead).body == first.encode()
    strict.receive(second)

    assert take(strict, second, "job-1", "&visibility=0").status == 204

    letter = strict.receive(f"{second}.dead")
    assert letter.body == second.encode()
    assert letter.headers["x-dead-from"] == second
    assert take(strict, dead, "job-1").body == first.encode()
