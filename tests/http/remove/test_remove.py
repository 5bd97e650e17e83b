"""4.6 DELETE /QUEUE/messages/ID"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.support.processes import Server, wait_until
from tests.support.wire import Wire, WireAnswer, assert_problem, files_of, make_queue, request_bytes

ANOTHER_LEASE = '"0123456789abcdef"'


def take(wire: Wire, queue: str, size: int = 4) -> WireAnswer:
    """Publish a message and receive it."""
    wire.publish(queue, b"b" * size)
    return wire.receive(queue)


def remove(wire: Wire, queue: str, taken: WireAnswer, **headers: str) -> WireAnswer:
    return wire.remove(queue, taken.headers["x-message-id"], **headers)


@pytest.mark.parametrize("size", [0, 4, 600_000])
def test_a_leased_message_is_removed(wire: Wire, server: Server, queue: str, size: int) -> None:
    taken = take(wire, queue, size)

    answer = remove(wire, queue, taken)

    assert (answer.status, answer.body) == (202, b"")
    assert answer.headers["cache-control"] == "no-store, no-transform"
    assert wire.count(queue) == (0, 0)
    assert files_of(server, queue) == [f"remove/{queue}:{taken.headers['x-message-id']}"]


def test_a_ready_message_is_removed_and_others_stay(wire: Wire, queue: str) -> None:
    wire.publish(queue, b"one")
    second = wire.publish(queue, b"two")
    wire.publish(queue, b"three")

    assert wire.remove(queue, second).status == 202
    assert [wire.receive(queue).body for _ in range(2)] == [b"one", b"three"]
    assert wire.receive(queue).status == 204


def test_a_message_already_in_remove_is_removed_again(wire: Wire, queue: str) -> None:
    taken = take(wire, queue)
    remove(wire, queue, taken)

    assert remove(wire, queue, taken).status == 202
    assert remove(wire, queue, taken, if_match=taken.headers["etag"]).status == 202


def test_a_removed_message_never_comes_back(hasty: Wire) -> None:
    queue, witness = make_queue(hasty), make_queue(hasty)
    removed = take(hasty, queue)
    take(hasty, witness)
    remove(hasty, queue, removed)

    wait_until(lambda: hasty.count(witness) == (1, 0))

    assert hasty.count(queue) == (0, 0)
    assert hasty.receive(queue).status == 204


def test_an_unknown_message_is_404(wire: Wire, queue: str) -> None:
    answer = wire.remove(queue, "01a1fcff-230d-764b-9fe9-169a79b2e15a")

    assert_problem(answer, 404, "message-not-found", "01a1fcff-230d-764b-9fe9-169a79b2e15a")


def test_a_message_of_another_queue_is_404_and_stays(wire: Wire, queue: str) -> None:
    other = make_queue(wire)
    message_id = wire.publish(other)

    assert_problem(wire.remove(queue, message_id), 404, "message-not-found", message_id)
    assert wire.count(other) == (1, 0)


def test_a_missing_queue_is_404(wire: Wire) -> None:
    assert_problem(wire.remove("absent", "1"), 404, "queue-not-found", "absent")


@pytest.mark.parametrize(
    "message_id",
    ["..", ".", "%2e%2e", "a%2fb", "..%2f..%2fformat", "q:1", "a_b", "a.b", "%00", "i" * 65],
)
def test_a_malformed_id_is_400(wire: Wire, queue: str, message_id: str) -> None:
    answer = wire.remove(queue, message_id)

    assert_problem(answer, 400, "invalid-name", "message id")


def test_a_malformed_queue_name_is_400(wire: Wire) -> None:
    assert_problem(wire.remove("..", "1"), 400, "invalid-name", "queue name")


@pytest.mark.parametrize("query", ["frobnicate=1", "x=1&x=1"])
def test_a_wrong_parameter_is_400_and_removes_nothing(wire: Wire, queue: str, query: str) -> None:
    message_id = wire.publish(queue)

    answer = wire.request("DELETE", f"/{queue}/messages/{message_id}?{query}")

    assert_problem(answer, 400, "invalid-request", "parameter")
    assert wire.count(queue) == (1, 0)


@pytest.mark.parametrize(
    "if_match",
    [
        "{lease}",
        " {lease}\t",
        f"{ANOTHER_LEASE}, {{lease}}",
        f'{{lease}},"of somebody else",{ANOTHER_LEASE}',
        f"W/{ANOTHER_LEASE},{{lease}}",
        f"{ANOTHER_LEASE}\r\nIf-Match: {{lease}}",
        f", {ANOTHER_LEASE},,{{lease}} ,",
        "*",
    ],
)
def test_if_match_with_the_current_lease_removes(wire: Wire, queue: str, if_match: str) -> None:
    taken = take(wire, queue)

    answer = remove(wire, queue, taken, if_match=if_match.format(lease=taken.headers["etag"]))

    assert answer.status == 202


@pytest.mark.parametrize(
    "if_match",
    [
        ANOTHER_LEASE,
        '"of somebody else"',
        '""',
        '"*"',
        '"0000000000000000"',
        f"{ANOTHER_LEASE},{ANOTHER_LEASE}",
        "W/{lease}",
    ],
)
@pytest.mark.parametrize("state", ["ready", "leased", "removed"])
def test_if_match_without_the_current_lease_is_412_and_moves_nothing(
    wire: Wire, server: Server, queue: str, if_match: str, state: str
) -> None:
    message_id, lease = wire.publish(queue), ANOTHER_LEASE
    if state != "ready":
        lease = wire.receive(queue).headers["etag"]
    if state == "removed":
        wire.remove(queue, message_id)
    before = files_of(server, queue)

    answer = wire.remove(queue, message_id, if_match=if_match.format(lease=lease))

    assert_problem(answer, 412, "lease-mismatch", message_id)
    assert files_of(server, queue) == before


@pytest.mark.parametrize(
    "if_match",
    [
        "",
        "0123456789abcdef",
        '"0123456789abcdef',
        f"{ANOTHER_LEASE} {ANOTHER_LEASE}",
        f"{ANOTHER_LEASE};{ANOTHER_LEASE}",
        f"{ANOTHER_LEASE},*",
        f"*,{ANOTHER_LEASE}",
        ", ,",
        f"w/{ANOTHER_LEASE}",
    ],
)
def test_a_malformed_if_match_is_400_and_removes_nothing(
    wire: Wire, queue: str, if_match: str
) -> None:
    taken = take(wire, queue)

    answer = remove(wire, queue, taken, if_match=if_match)

    assert_problem(answer, 400, "invalid-request", "If-Match")
    assert wire.count(queue) == (0, 1)


@pytest.mark.parametrize("ids", ["{}", "{},never-published"], ids=["one", "several"])
def test_a_star_removes_a_message_that_has_no_lease(wire: Wire, queue: str, ids: str) -> None:
    message_id = wire.publish(queue)

    answer = wire.remove(queue, ids.format(message_id), if_match="*")

    assert answer.status == (207 if "," in ids else 202)
    assert wire.count(queue) == (0, 0)


@pytest.mark.parametrize("if_match", [ANOTHER_LEASE, f"W/{ANOTHER_LEASE}", "*"])
def test_404_comes_before_412(wire: Wire, queue: str, if_match: str) -> None:
    unknown = wire.remove(queue, "unknown", if_match=if_match)
    absent = wire.remove("absent", "unknown", if_match=if_match)

    assert_problem(unknown, 404, "message-not-found", "unknown")
    assert_problem(absent, 404, "queue-not-found", "absent")


def test_a_lease_that_was_taken_over_removes_nothing(hasty: Wire) -> None:
    queue = make_queue(hasty)
    stale = take(hasty, queue)
    wait_until(lambda: hasty.count(queue) == (1, 0))
    current = hasty.receive(queue)

    answer = remove(hasty, queue, stale, if_match=stale.headers["etag"])

    assert_problem(answer, 412, "lease-mismatch", stale.headers["x-message-id"])
    assert remove(hasty, queue, stale, if_match=current.headers["etag"]).status == 202


def test_a_lease_that_ran_out_holds_after_redelivery_until_it_is_taken_over(hasty: Wire) -> None:
    queue = make_queue(hasty)
    taken = take(hasty, queue)
    wait_until(lambda: hasty.count(queue) == (1, 0))

    assert remove(hasty, queue, taken, if_match=taken.headers["etag"]).status == 202
    assert hasty.count(queue) == (0, 0)


def test_a_lease_that_ran_out_holds_while_no_mover_redelivers(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire]
) -> None:
    wire = connect(start_server("--visibility=0.1"))
    queue = make_queue(wire)
    taken = take(wire, queue)
    visible = datetime.fromisoformat(taken.headers["x-visible-at"])
    wait_until(lambda: datetime.now(UTC) > visible)

    assert remove(wire, queue, taken, if_match=taken.headers["etag"]).status == 202


@pytest.mark.parametrize("guard", [{}, {"if_match": "{lease}"}], ids=["plain", "guarded"])
def test_removers_at_the_same_time_all_get_202(
    server: Server,
    connect: Callable[[Server], Wire],
    wire: Wire,
    queue: str,
    guard: dict[str, str],
) -> None:
    taken = take(wire, queue)
    headers = {name: value.format(lease=taken.headers["etag"]) for name, value in guard.items()}
    target = f"/{queue}/messages/{taken.headers['x-message-id']}"
    wires = [connect(server) for _ in range(8)]

    for each in wires:
        each.send(request_bytes("DELETE", target, **headers))

    assert [each.answer().status for each in wires] == [202] * 8
