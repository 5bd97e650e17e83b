"""4.6 DELETE /QUEUE/messages/ID1,ID2,..."""

from __future__ import annotations

import pytest

from mq.config import MAX_REMOVALS
from tests.support.batches import outcomes_in
from tests.support.processes import Server
from tests.support.wire import Wire, assert_problem, files_of


def test_several_messages_are_removed_at_once(server: Server, wire: Wire, queue: str) -> None:
    ids = [wire.publish(queue) for _ in range(4)]
    wire.receive(queue)

    answer = wire.remove(queue, ",".join(ids[:3]))

    assert (answer.status, answer.body) == (202, b"")
    assert files_of(server, queue) == [
        f"queues/{queue}/{ids[3]}",
        *(f"remove/{queue}:{each}" for each in ids[:3]),
    ]


def test_again_it_is_202_and_so_is_one_that_stands_twice(wire: Wire, queue: str) -> None:
    ids = ",".join([wire.publish(queue), wire.publish(queue)])

    assert [wire.remove(queue, ids).status for _ in range(2)] == [202, 202]
    assert wire.remove(queue, f"{ids},{ids}").status == 202


def test_where_some_fail_each_has_its_line(wire: Wire, queue: str) -> None:
    ids = [wire.publish(queue), "never-published", wire.publish(queue)]

    first, second, third = outcomes_in(wire.remove(queue, ",".join(ids)))

    assert (first, third) == ({"id": ids[0], "status": 202}, {"id": ids[2], "status": 202})
    assert (second["id"], second["status"]) == ("never-published", 404)
    assert second["type"] == "urn:mq:problem:message-not-found"
    assert "never-published" in second["detail"]
    assert wire.count(queue) == (0, 0)


def test_a_list_of_leases_removes_those_that_are_under_one_of_them(wire: Wire, queue: str) -> None:
    for _ in range(3):
        wire.publish(queue)
    received = [wire.receive(queue) for _ in range(3)]
    ids = [each.headers["x-message-id"] for each in received]
    leases = [each.headers["etag"] for each in received]

    answer = wire.remove(queue, ",".join(ids), if_match=f"{leases[0]}, {leases[2]}")

    assert [line["status"] for line in outcomes_in(answer)] == [202, 412, 202]
    assert wire.count(queue) == (0, 1)
    assert wire.remove(queue, ",".join(ids), if_match=", ".join(leases)).status == 202


@pytest.mark.parametrize("ids", ["{},", ",{}", "{},,{}", "{},a b", "{},a/b", "{},.x", ","])
def test_an_id_that_is_none_is_400_and_nothing_is_removed(wire: Wire, queue: str, ids: str) -> None:
    answer = wire.remove(queue, ids.replace("{}", wire.publish(queue)).replace(" ", "%20"))

    assert answer.status in (400, 404)
    if "/" not in ids:
        assert_problem(answer, 400, "invalid-name", "message id")
    assert wire.count(queue) == (1, 0)


def test_commas_may_be_escaped(wire: Wire, queue: str) -> None:
    ids = [wire.publish(queue), wire.publish(queue)]

    assert wire.remove(queue, "%2C".join(ids)).status == 202


def test_one_request_removes_up_to_200(wire: Wire, queue: str) -> None:
    ids = [wire.publish(queue, b"", x_message_id=f"{n}") for n in range(MAX_REMOVALS + 1)]

    assert_problem(wire.remove(queue, ",".join(ids)), 400, "invalid-request", "200")
    assert wire.remove(queue, ",".join(ids[1:])).status == 202
    assert wire.count(queue) == (1, 0)


def test_from_no_queue_it_is_404(wire: Wire) -> None:
    assert_problem(wire.remove("none", "a,b"), 404, "queue-not-found", "none")
