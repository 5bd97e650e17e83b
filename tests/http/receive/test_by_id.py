"""4.5 GET /QUEUE/messages?id=ID and ?visibility=S"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.messages import delay, names_in, read_seal
from tests.support.processes import Process, Server, start_mover, wait_until
from tests.support.wire import Wire, WireAnswer, assert_problem, take

LEAST = timedelta(microseconds=1)
"""The header is cut off to microseconds."""


def assert_hidden_for(seconds: float, answer: WireAnswer, before: datetime) -> None:
    """Its request was sent after `before`."""
    visible = datetime.fromisoformat(answer.headers["x-visible-at"])
    asked = timedelta(seconds=seconds)
    assert before + asked - LEAST <= visible <= datetime.now(UTC) + asked


@pytest.mark.parametrize("seconds", ["0.5", "1", "60.25", "2592000"])
def test_visibility_of_a_receive_is_what_it_asks_for(wire: Wire, queue: str, seconds: str) -> None:
    wire.publish(queue)
    before = datetime.now(UTC)

    answer = wire.request("GET", f"/{queue}/messages?visibility={seconds}")

    assert_hidden_for(float(seconds), answer, before)


@pytest.mark.parametrize("size", [4, 600_000])
@pytest.mark.parametrize("state", ["ready", "leased", "delayed"])
def test_id_takes_that_very_message_in_any_state(
    server: Server, wire: Wire, queue: str, state: str, size: int
) -> None:
    wire.publish(queue, b"older")
    message_id = wire.publish(queue, b"b" * size, content_type="text/plain")
    earlier = None
    if state == "leased":
        earlier = take(wire, queue, message_id)
    if state == "delayed":
        delay(server.root, queue, message_id)
    before = datetime.now(UTC)

    answer = take(wire, queue, message_id, "&visibility=60")

    assert_hidden_for(60, answer, before)
    assert (answer.status, answer.body) == (200, b"b" * size)
    assert answer.headers["x-message-id"] == message_id
    assert answer.headers["content-type"] == "text/plain"
    assert answer.headers["x-receive-count"] == ("1" if earlier is None else "2")
    assert wire.receive(queue).body == b"older"
    assert wire.receive(queue).status == 204
    if earlier is not None:
        assert earlier.headers["etag"] != answer.headers["etag"]
        stale = wire.remove(queue, message_id, if_match=earlier.headers["etag"])
        assert_problem(stale, 412, "lease-mismatch")
    assert wire.remove(queue, message_id, if_match=answer.headers["etag"]).status == 202


def test_id_without_visibility_takes_for_the_usual_time(wire: Wire, queue: str) -> None:
    message_id = wire.publish(queue)
    before = datetime.now(UTC)

    answer = take(wire, queue, message_id)

    assert_hidden_for(30, answer, before)


@pytest.mark.parametrize("size", [4, 600_000])
def test_a_heartbeat_keeps_lease_and_count_and_moves_the_end(
    wire: Wire, queue: str, size: int
) -> None:
    message_id = wire.publish(queue, b"b" * size)
    taken = wire.receive(queue)

    for seconds in (3600, 5):
        before = datetime.now(UTC)
        answer = take(
            wire,
            queue,
            message_id,
            f"&visibility={seconds}",
            if_match=f'"00c0ffee00c0ffee", {taken.headers["etag"]}',
        )

        assert (answer.status, answer.body) == (200, b"b" * size)
        assert answer.headers["etag"] == taken.headers["etag"]
        assert answer.headers["x-receive-count"] == "1"
        assert_hidden_for(seconds, answer, before)
    assert wire.remove(queue, message_id, if_match=taken.headers["etag"]).status == 202


def test_a_star_prolongs_whatever_lease_there_is_but_begins_none(wire: Wire, queue: str) -> None:
    message_id = wire.publish(queue)
    never_received = take(wire, queue, message_id, if_match="*")
    taken = wire.receive(queue)

    prolonged = take(wire, queue, message_id, "&visibility=60", if_match="*")

    assert_problem(never_received, 412, "lease-mismatch", "has no lease: nobody has received it")
    assert prolonged.status == 200
    assert prolonged.headers["etag"] == taken.headers["etag"]
    assert prolonged.headers["x-receive-count"] == "1"


@pytest.mark.parametrize("visibility", ["60", "0"])
def test_a_wrong_lease_is_412_and_changes_nothing(
    server: Server, wire: Wire, queue: str, visibility: str
) -> None:
    message_id = wire.publish(queue)
    taken = wire.receive(queue)
    file = server.root / "delay" / f"{queue}:{message_id}"
    before = file.stat(), read_seal(file)

    for wrong in ('"00c0ffee00c0ffee"', f"W/{taken.headers['etag']}", '"*"', '""'):
        answer = take(wire, queue, message_id, f"&visibility={visibility}", if_match=wrong)

        assert_problem(answer, 412, "lease-mismatch", message_id)
    assert (file.stat(), read_seal(file)) == before


@pytest.mark.parametrize("visibility", ["60", "0"])
def test_a_message_that_is_not_there_is_404_before_412(
    wire: Wire, queue: str, visibility: str
) -> None:
    message_id = wire.publish(queue)
    wire.remove(queue, message_id)
    for unknown in (message_id, "never"):
        answer = take(
            wire, queue, unknown, f"&visibility={visibility}", if_match='"00c0ffee00c0ffee"'
        )

        assert_problem(answer, 404, "message-not-found", unknown)
    assert_problem(take(wire, "absent", message_id), 404, "queue-not-found", "absent")


def test_a_lease_that_ran_out_can_be_prolonged_until_somebody_takes_the_message(
    server: Server, wire: Wire, queue: str, processes: list[Process]
) -> None:
    message_id = wire.publish(queue)
    taken = wire.request("GET", f"/{queue}/messages?visibility=0.5")
    processes.append(start_mover(server.root))
    wait_until(lambda: wire.count(queue) == (1, 0))

    prolonged = take(wire, queue, message_id, "&visibility=60", if_match=taken.headers["etag"])

    assert prolonged.headers["etag"] == taken.headers["etag"]
    assert prolonged.headers["x-receive-count"] == "1"
    assert wire.count(queue) == (0, 1)
    assert wire.receive(queue).status == 204


def test_a_message_taken_by_id_comes_back_when_its_lease_is_over(
    server: Server, wire: Wire, queue: str, processes: list[Process]
) -> None:
    processes.append(start_mover(server.root))
    message_id = wire.publish(queue)
    delay(server.root, queue, message_id)

    take(wire, queue, message_id, "&visibility=0.2")

    wait_until(lambda: wire.count(queue) == (1, 0))
    assert wire.receive(queue).headers["x-receive-count"] == "2"


def test_a_heartbeat_is_what_the_mover_goes_by(
    server: Server, wire: Wire, queue: str, processes: list[Process]
) -> None:
    """The mover respects a shorter lease too; a canary that is due later shows that time has
    passed."""
    processes.append(start_mover(server.root))
    longer, shorter, canary = (wire.publish(queue) for _ in range(3))
    etag = take(wire, queue, longer, "&visibility=0.3").headers["etag"]
    take(wire, queue, longer, "&visibility=600", if_match=etag)
    etag = take(wire, queue, shorter, "&visibility=600").headers["etag"]
    take(wire, queue, shorter, "&visibility=0.2", if_match=etag)
    take(wire, queue, canary, "&visibility=0.5")

    ready = server.root / "queues" / queue
    wait_until(lambda: names_in(ready) == [shorter, canary])
    assert (server.root / "delay" / f"{queue}:{longer}").exists()


def test_leases_survive_the_death_of_every_process(
    start_server: Callable[..., Server],
    connect: Callable[[Server], Wire],
    root: Path,
    processes: list[Process],
) -> None:
    server = start_server()
    mover = start_mover(root)
    processes.append(mover)
    wire = connect(server)
    wire.request("PUT", "/q")
    first, second = wire.publish("q", b"first"), wire.publish("q", b"second")
    lost = take(wire, "q", first, "&visibility=600").headers["etag"]
    taken = wire.receive("q")
    kept = take(wire, "q", second, "&visibility=600", if_match=taken.headers["etag"])
    assert kept.status == 200

    server.kill()
    mover.kill()
    again = connect(start_server(root=root))
    processes.append(start_mover(root))

    assert again.receive("q").status == 204
    assert take(again, "q", second, if_match=kept.headers["etag"]).body == b"second"
    assert again.remove("q", second, if_match=kept.headers["etag"]).status == 202
    assert take(again, "q", first, "&visibility=0", if_match=lost).status == 204
    assert again.receive("q").headers["x-receive-count"] == "2"


@pytest.mark.parametrize("size", [4, 600_000])
def test_a_damaged_message_is_404_and_set_aside(
    server: Server, wire: Wire, queue: str, size: int
) -> None:
    message_id = wire.publish(queue, b"b" * size)
    (server.root / "queues" / queue / message_id).write_bytes(b"x" * size)

    answer = take(wire, queue, message_id)

    assert_problem(answer, 404, "message-not-found", message_id)
    assert (server.root / "corrupt" / f"{queue}:{message_id}").exists()


def test_a_malformed_if_match_is_400(wire: Wire, queue: str) -> None:
    message_id = wire.publish(queue)

    answer = take(wire, queue, message_id, if_match="no quotes")

    assert_problem(answer, 400, "invalid-request", "If-Match")


@pytest.mark.parametrize("message_id", ["", "a%2Fb", "..", "a" * 65, "%00"])
def test_a_malformed_id_is_400(wire: Wire, queue: str, message_id: str) -> None:
    assert_problem(take(wire, queue, message_id), 400, "invalid-name")
