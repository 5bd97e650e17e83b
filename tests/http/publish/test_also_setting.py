"""PUT /QUEUE?also=OTHER: an operator adds a reader, and no producer changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.config import MAX_QUEUES
from tests.support.batches import NDJSON, answer_lines
from tests.support.moves import move, moved
from tests.support.processes import Server, wait_until
from tests.support.token_files import make_token_file
from tests.support.wire import Wire, WireAnswer, assert_problem, files_of, make_queue

ALL, CHIEF = "all-mP2sYw8LrBgkT3vVt9xkq3", "chief-9xkq3mP2sYw8LrBgkT3vVt"
SIZES = pytest.mark.parametrize("size", [4, 200_000, 1_000_000])


@pytest.fixture
def queues(wire: Wire) -> list[str]:
    """Three queues; what is published to the first goes to the others too."""
    made = [make_queue(wire) for _ in range(3)]
    assert set_also(wire, made[0], *made[1:]).status == 200
    return made


def set_also(wire: Wire, queue: str, *others: str) -> WireAnswer:
    return wire.request("PUT", f"/{queue}?also={','.join(others)}")


def counts(wire: Wire, queues: list[str]) -> list[tuple[int, int]]:
    return [wire.count(each) for each in queues]


def assert_each_has(wire: Wire, queues: list[str], ids: list[str], body: bytes = b"body") -> None:
    for queue in queues:
        received = [wire.receive(queue) for _ in ids]
        assert [each.headers.get("x-message-id") for each in received] == ids
        assert {each.body for each in received} == {body}
        assert wire.receive(queue).status == 204


@SIZES
@pytest.mark.parametrize("own_id", [{}, {"x_message_id": "own"}], ids=["new", "own"])
def test_each_gets_what_is_published(
    wire: Wire, queues: list[str], size: int, own_id: dict[str, str]
) -> None:
    body = b"b" * size
    for _ in range(3):  # The third head is known; an own id is published once.
        answer = wire.request("POST", f"/{queues[0]}/messages", body, x_meta_shop="no", **own_id)

        assert answer.status == (200 if own_id and _ else 201)
    ids = [answer.headers["x-message-id"]] if own_id else None
    for each in queues:
        received = [wire.receive(each) for _ in range(1 if own_id else 3)]
        assert {each.body for each in received} == {body}
        assert {each.headers["x-meta-shop"] for each in received} == {"no"}
        ids = ids or [each.headers["x-message-id"] for each in received]
        assert [each.headers["x-message-id"] for each in received] == ids
        assert wire.receive(each).status == 204


def test_each_gets_a_batch(wire: Wire, queues: list[str]) -> None:
    lines = b"".join(json.dumps({"body": "body"}).encode() + b"\n" for _ in range(200))

    answer = wire.request("POST", f"/{queues[0]}/messages?batch", lines, content_type=NDJSON)

    assert answer.status == 201
    assert_each_has(wire, queues, [line["id"] for line in answer_lines(answer)])


def test_a_request_may_name_more(wire: Wire, queues: list[str]) -> None:
    more = make_queue(wire)
    both = [more, queues[1]]

    answer = wire.request("POST", f"/{queues[0]}/messages?also={','.join(both)}", b"body")

    assert answer.status == 201
    assert_each_has(wire, [*queues, more], [answer.headers["x-message-id"]])


def test_the_settings_of_each_that_a_request_names_count(wire: Wire, queues: list[str]) -> None:
    other = make_queue(wire)

    answer = wire.request("POST", f"/{other}/messages?also={queues[0]}", b"body")

    assert answer.status == 201
    assert_each_has(wire, [*queues, other], [answer.headers["x-message-id"]])


def test_a_message_goes_to_a_limited_number_of_queues(wire: Wire, queues: list[str]) -> None:
    """The settings of all that a request names count."""
    first, *_ = queues
    others = [f"{first}.{each}" for each in range(MAX_QUEUES - 2)]
    for each in others:
        wire.request("PUT", f"/{each}")

    refused = wire.request("POST", f"/{first}/messages?also={','.join(others)}", b"body")

    assert_problem(refused, 400, "invalid-request", f"{MAX_QUEUES + 1} queues")
    assert counts(wire, queues) == [(0, 0)] * 3
    names = ",".join(others[1:])
    assert wire.request("POST", f"/{first}/messages?also={names}", b"body").status == 201
    assert counts(wire, [*queues, *others[1:]]) == [(1, 0)] * MAX_QUEUES


def test_a_copy_is_not_copied(wire: Wire, queues: list[str]) -> None:
    first, second, third = queues
    assert set_also(wire, second, first, third).status == 200
    assert set_also(wire, first, second).status == 200

    assert_each_has(wire, [first, second], [wire.publish(first)])
    assert wire.receive(third).status == 204


def test_what_is_moved_is_not_copied(wire: Wire, queues: list[str]) -> None:
    source = make_queue(wire)
    message_id = wire.publish(source)

    assert moved(move(wire, queues[0], source)) == 1

    assert_each_has(wire, queues[:1], [message_id])
    assert counts(wire, queues[1:]) == [(0, 0)] * 2


def test_none_gets_it_if_one_is_full(wire: Wire, queues: list[str]) -> None:
    wire.request("PUT", f"/{queues[2]}?max-messages=1")
    message_id = wire.publish(queues[0])

    refused = wire.request("POST", f"/{queues[0]}/messages", b"body")

    assert_problem(refused, 503, "unavailable", f"queue {queues[2]} has 1 of the 1")
    assert f"what is published to {queues[0]} goes there too" in refused.json()["detail"]
    named = f"/{queues[0]}/messages?also={queues[2]}"
    detail = wire.request("POST", named, b"body").json()["detail"]
    assert detail.endswith("receive and remove go on")
    assert_each_has(wire, queues, [message_id])


def test_names_may_have_a_parameter_each(wire: Wire, queues: list[str]) -> None:
    first, second, third = queues
    wire.request("PUT", f"/{first}?also=")

    wire.request("PUT", f"/{first}?also={second}&also={third}")

    assert wire.request("GET", f"/{first}").json()["settings"] == {"also": f"{second},{third}"}


def test_the_delay_of_each_queue_counts(wire: Wire, queues: list[str]) -> None:
    wire.request("PUT", f"/{queues[2]}?delay=3600")

    wire.publish(queues[0])

    assert counts(wire, queues) == [(1, 0), (1, 0), (0, 0)]
    assert wire.request("GET", f"/{queues[2]}").json()["delayed"] == 1


def test_one_that_is_deleted_gets_nothing_until_it_is_made_again(
    server: Server, wire: Wire, queues: list[str]
) -> None:
    first, second, third = queues
    wire.request("DELETE", f"/{second}")
    assert wire.request("GET", f"/{first}").json()["missing"] == [second]

    ids = [wire.publish(first) for _ in range(3)]

    assert_each_has(wire, [first, third], ids)
    assert wire.request("GET", f"/{second}").status == 404
    assert server.log().count("no copies") == 1
    wire.request("PUT", f"/{second}")
    assert "missing" not in wire.request("GET", f"/{first}").json()
    assert_each_has(wire, queues, [wire.publish(first)])
    wire.request("DELETE", f"/{second}")
    wire.publish(first)
    assert server.log().count("no copies") == 2, "it is news again"


def test_an_own_id_that_comes_again_goes_to_a_reader_that_is_new(
    wire: Wire, queues: list[str]
) -> None:
    first, *others = queues
    set_also(wire, first)
    wire.publish(first, x_message_id="own")
    assert set_also(wire, first, *others).status == 200

    wire.publish(first, x_message_id="own")

    assert_each_has(wire, queues, ["own"])


def test_it_is_shown_and_taken_away(server: Server, wire: Wire, queues: list[str]) -> None:
    first, *others = queues
    shown = wire.request("GET", f"/{first}").json()["settings"]

    assert shown == {"also": ",".join(others)}
    text = (server.root / "queues" / first / ".settings").read_text()
    assert text == f"also={','.join(others)}\n"
    assert set_also(wire, first).status == 200
    assert wire.request("GET", f"/{first}").json()["settings"] == {}
    assert_each_has(wire, [first], [wire.publish(first)])
    assert counts(wire, others) == [(0, 0)] * 2


def test_a_file_that_a_person_writes_counts(server: Server, wire: Wire, queues: list[str]) -> None:
    first, second, third = queues
    wire.publish(first)

    (server.root / "queues" / first / ".settings").write_text(f"also = {third}\n")

    def has_followed() -> bool:
        before = wire.count(second)
        wire.publish(first)
        return wire.count(second) == before

    wait_until(has_followed)
    assert wire.count(third) == wire.count(first)


def test_another_server_follows(
    server: Server,
    wire: Wire,
    queues: list[str],
    start_server: Callable[..., Server],
    connect: Callable[[Server], Wire],
) -> None:
    first, second, _ = queues
    other = connect(start_server(f"--root={server.root}"))
    other.publish(first)
    assert set_also(wire, first).status == 200

    def has_followed() -> bool:
        before = wire.count(second)
        other.publish(first)
        return wire.count(second) == before

    wait_until(has_followed)


@pytest.mark.parametrize(
    ("others", "told"),
    [
        (["absent"], "there is no queue absent"),
        (["usual", "absent"], "there is no queue absent"),
        (["file"], "there is no queue file"),
        (["usual", "-"], "names of up to"),
        (["usual", ""], "names of up to"),
        (["line.fifo"], "FIFO"),
        (["orders.new"], "other queues than orders.new"),
        ([f"q{each}" for each in range(MAX_QUEUES)], "names of up to 63"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_made(
    server: Server, wire: Wire, others: list[str], told: str
) -> None:
    for each in ("usual", "line.fifo"):
        wire.request("PUT", f"/{each}")
    (server.root / "queues" / "file").write_bytes(b"")

    assert_problem(set_also(wire, "orders.new", *others), 400, "invalid-request", told)
    assert wire.request("GET", "/orders.new").status == 404
    assert_problem(set_also(wire, "usual", *others, "usual"), 400, "invalid-request")
    assert wire.request("GET", "/usual").json()["settings"] == {}
    assert_problem(set_also(wire, "line.fifo", "usual"), 400, "invalid-request", "FIFO")
    assert files_of(server, "usual") == []


def test_a_token_for_one_queue_sends_no_copies_to_another(
    tmp_path: Path, start_server: Callable[..., Server], connect: Callable[[Server], Wire]
) -> None:
    tokens = make_token_file(tmp_path, f"all admin {ALL}\nchief admin orders {CHIEF}\n")
    wire = connect(start_server(f"--token-file={tokens}"))

    def put(target: str, token: str) -> int:
        return wire.request("PUT", target, authorization=f"Bearer {token}").status

    assert [put(f"/{queue}", ALL) for queue in ("orders", "bills")] == [201] * 2
    for query in ("also=bills", "also=absent,bills", "also=%62ills", "also=bills&ttl=5"):
        assert put(f"/orders?{query}", CHIEF) == 403
    assert [put(f"/orders?also={others}", CHIEF) for others in ("orders", "")] == [400, 200]
    assert put("/orders?also=bills", ALL) == 200
