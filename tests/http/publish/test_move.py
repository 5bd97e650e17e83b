"""POST /QUEUE/messages?from=SOURCE"""

from __future__ import annotations

import json

import pytest

from tests.support.batches import outcomes_in
from tests.support.messages import delay
from tests.support.moves import move, moved
from tests.support.processes import Server, wait_until
from tests.support.wire import Wire, assert_problem

UNKNOWN = '"00c0ffee00c0ffee"'


def test_messages_go_as_they_are_and_take_their_old_place(
    wire: Wire, queue: str, source: str
) -> None:
    order = [(wire.publish(name), name) for name in (source, queue, source, queue, source)]
    typed = wire.publish(source, b"b" * 600_000, content_type="text/x")
    older = wire.request("GET", f"/{source}/messages?peek&id={order[0][0]}").headers

    assert moved(move(wire, queue, source)) == 4

    taken = [wire.receive(queue) for _ in range(6)]
    assert [each.headers["x-message-id"] for each in taken] == [*(i for i, _ in order), typed]
    assert taken[0].headers["x-published-at"] == older["x-published-at"]
    assert (taken[5].body, taken[5].headers["content-type"]) == (b"b" * 600_000, "text/x")
    assert wire.count(source) == (0, 0)
    assert move(wire, queue, source).json() == {"moved": 0}


def test_own_ids_take_the_place_of_their_publication(wire: Wire, queue: str, source: str) -> None:
    wire.publish(source, b"1", x_message_id="zz")
    wire.publish(queue, b"2", x_message_id="mm")
    wire.publish(source, b"3", x_message_id="aa")

    assert moved(move(wire, queue, source)) == 2

    assert [wire.receive(queue).body for _ in range(3)] == [b"1", b"2", b"3"]


def test_the_count_begins_anew(wire: Wire, queue: str, source: str) -> None:
    message_id = wire.publish(source)
    for _ in range(3):
        wire.request("GET", f"/{source}/messages?id={message_id}")

    assert moved(move(wire, queue, source, f"&id={message_id}")) == 1

    assert wire.receive(queue).headers["x-receive-count"] == "1"


def test_a_move_takes_properties_along(wire: Wire, queue: str, source: str) -> None:
    wire.publish(source, b"body", x_meta_shop="north")

    assert moved(move(wire, queue, source, "&reason=because")) == 1

    told = wire.receive(queue)
    assert (told.body, told.headers["x-meta-shop"]) == (b"body", "north")


def test_max_moves_the_oldest(wire: Wire, queue: str, source: str) -> None:
    ids = [wire.publish(source) for _ in range(5)]

    assert moved(move(wire, queue, source, "&max=2")) == 2

    assert [wire.receive(queue).headers["x-message-id"] for _ in range(2)] == ids[:2]
    assert wire.count(source) == (3, 0)


def test_more_than_a_thousand_take_more_than_one_request(
    wire: Wire, queue: str, source: str
) -> None:
    lines = b"".join(b'{"body": "%d"}\n' % number for number in range(600))
    for _ in range(2):
        wire.request("POST", f"/{source}/messages?batch", lines,
                     content_type="application/x-ndjson")  # fmt: skip

    assert [moved(move(wire, queue, source)) for _ in range(3)] == [1000, 200, 0]
    assert wire.count(queue) == (1200, 0)


@pytest.mark.parametrize("state", ["ready", "leased", "delayed"])
def test_id_moves_that_message_in_any_state(
    server: Server, wire: Wire, queue: str, source: str, state: str
) -> None:
    first, message_id = wire.publish(source), wire.publish(source)
    if state == "leased":
        wire.request("GET", f"/{source}/messages?id={message_id}")
    if state == "delayed":
        delay(server.root, source, message_id)

    assert moved(move(wire, queue, source, f"&id={message_id}")) == 1

    assert wire.count(queue) == (1, 0)
    assert wire.receive(queue).headers["x-message-id"] == message_id
    assert wire.receive(source).headers["x-message-id"] == first
    assert wire.receive(source).status == 204


def test_max_leaves_what_is_leased_or_delayed(
    server: Server, wire: Wire, queue: str, source: str
) -> None:
    leased, delayed = wire.publish(source), wire.publish(source)
    wire.request("GET", f"/{source}/messages?id={leased}")
    delay(server.root, source, delayed)
    wait_until(lambda: wire.count(source) == (0, 1))

    assert moved(move(wire, queue, source)) == 0


@pytest.mark.parametrize("ids", ["&id={}&id={}&id={}", "&id={},{},{}", "&id={},{}&id={}"])
def test_several_ids_move_their_messages_and_no_others(
    wire: Wire, queue: str, source: str, ids: str
) -> None:
    published = [wire.publish(source) for _ in range(4)]

    assert moved(move(wire, queue, source, ids.format(*published[1:]))) == 3

    assert wire.count(queue) == (3, 0)
    assert wire.count(source) == (1, 0)


def test_dead_from_moves_only_what_died_there(wire: Wire, queue: str, source: str) -> None:
    dead = f"{queue}.dead"
    wire.request("PUT", f"/{dead}")
    ids = [wire.publish(each) for each in (queue, source, dead)]
    for each, message_id in zip((queue, source), ids, strict=False):
        moved(move(wire, dead, each, f"&id={message_id}&reason=no"))

    answer = move(wire, queue, dead, f"&id={','.join(ids)}&dead-from={queue}")

    assert [json.loads(line)["status"] for line in answer.body.splitlines()] == [200, 404, 404]
    alone = move(wire, queue, dead, f"&id={ids[1]}&dead-from={queue}")
    assert_problem(alone, 404, "message-not-found", ids[1])
    assert (wire.count(queue), wire.count(dead)) == ((1, 0), (2, 0))


def test_an_id_that_is_given_twice_counts_once(wire: Wire, queue: str, source: str) -> None:
    message_id = wire.publish(source)

    assert moved(move(wire, queue, source, f"&id={message_id}&id={message_id}")) == 1


def test_some_that_cannot_be_moved_are_reported_and_the_others_go(
    wire: Wire, queue: str, source: str
) -> None:
    good = wire.publish(source)
    wire.publish(source, b"this", x_message_id="taken")
    wire.publish(queue, b"that", x_message_id="taken")

    answer = move(wire, queue, source, f"&id={good}&id=absent&id=taken")

    first, second, third = outcomes_in(answer)
    assert first == {"id": good, "status": 200}
    assert (second["id"], second["status"]) == ("absent", 404)
    assert second["type"] == "urn:mq:problem:message-not-found"
    assert (third["id"], third["status"]) == ("taken", 409)
    assert third["type"] == "urn:mq:problem:id-taken"
    assert wire.count(source) == (1, 0)


def test_as_many_ids_as_fit_into_a_line(wire: Wire, queue: str, source: str) -> None:
    ids = ",".join(map(str, range(1001)))

    assert_problem(move(wire, queue, source, f"&id={ids}"), 400, "invalid-request", "1001 ids")
    answer = move(wire, queue, source, f"&id={ids.removesuffix(',1000')}")
    assert len(outcomes_in(answer)) == 1000


# What the target has already


@pytest.mark.parametrize("state", ["ready", "leased", "delayed", "dead"])
def test_an_id_that_the_target_has_stays_where_it_is(
    server: Server, wire: Wire, queue: str, source: str, state: str
) -> None:
    wire.publish(source, b"this", x_message_id="one")
    if state == "dead":
        wire.request("PUT", f"/{queue}.dead")
        wire.publish(f"{queue}.dead", b"that", x_message_id="one")
    else:
        wire.publish(queue, b"that", x_message_id="one")
    if state == "leased":
        wire.receive(queue)
    if state == "delayed":
        delay(server.root, queue, "one")

    assert_problem(move(wire, queue, source, "&id=one"), 409, "id-taken", "one")
    oldest = move(wire, queue, source)

    assert (oldest.status, oldest.json()) == (200, {"moved": 0, "taken": ["one"]})
    assert wire.receive(source).body == b"this"


def test_those_behind_one_that_stays_go(wire: Wire, queue: str, source: str) -> None:
    wire.publish(source, b"this", x_message_id="one")
    wire.publish(queue, b"this", x_message_id="one")
    wire.publish(source, b"next")

    assert move(wire, queue, source).json() == {"moved": 1, "taken": ["one"]}

    assert wire.count(source) == (1, 0)
    assert wire.receive(source).headers["x-message-id"] == "one"


def test_an_id_that_was_removed_in_the_target_is_free(wire: Wire, queue: str, source: str) -> None:
    wire.publish(queue, b"that", x_message_id="one")
    wire.remove(queue, "one")
    wire.publish(source, b"this", x_message_id="one")

    assert moved(move(wire, queue, source, "&id=one")) == 1

    assert wire.receive(queue).body == b"this"
    assert wire.remove(queue, "one").status == 202
    assert wire.count(queue) == (0, 0)


def test_the_target_knows_the_id_from_then_on(wire: Wire, queue: str, source: str) -> None:
    wire.publish(source, b"this", x_message_id="one")
    move(wire, queue, source)

    again = wire.request("POST", f"/{queue}/messages", b"this", x_message_id="one")
    another = wire.request("POST", f"/{queue}/messages", b"that", x_message_id="one")

    assert again.status == 200
    assert_problem(another, 409, "id-taken")


# Settings


def test_what_is_paused_can_be_moved(wire: Wire, queue: str, source: str) -> None:
    wire.publish(source)
    for name in (queue, source):
        wire.request("PUT", f"/{name}?paused=true")

    assert moved(move(wire, queue, source)) == 1

    assert wire.receive(queue).status == 204
    wire.request("PUT", f"/{queue}?paused=")
    assert wire.receive(queue).status == 200


def test_a_full_target_takes_what_it_has_room_for(wire: Wire, queue: str, source: str) -> None:
    ids = [wire.publish(source) for _ in range(4)]
    wire.request("PUT", f"/{queue}?max-messages=2")

    assert moved(move(wire, queue, source)) == 2

    assert_problem(move(wire, queue, source), 503, "unavailable", "max-messages")
    assert_problem(move(wire, queue, source, f"&id={ids[3]}"), 503, "unavailable", "max-messages")
    assert wire.count(source) == (2, 0)


def test_several_ids_go_while_there_is_room(wire: Wire, queue: str, source: str) -> None:
    ids = [wire.publish(source) for _ in range(3)]
    wire.request("PUT", f"/{queue}?max-messages=2")

    answer = move(wire, queue, source, f"&id={','.join(ids)}")

    assert sorted(line["status"] for line in outcomes_in(answer)) == [200, 200, 503]
    assert wire.count(queue) == (2, 0)


def test_those_who_wait_get_what_is_moved(start_server: object, server: Server) -> None:
    asking, moving = Wire(server.port), Wire(server.port)
    moving.request("PUT", "/waiting"), moving.request("PUT", "/waiting.src")
    moving.publish("waiting.src", b"at last")
    asking.send(b"GET /waiting/messages?wait=30 HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert moved(move(moving, "waiting", "waiting.src")) in (0, 1)

    assert asking.answer().body == b"at last"
    asking.close()
    moving.close()
