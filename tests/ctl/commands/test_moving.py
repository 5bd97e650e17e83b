"""`mqctl move` and `redrive`: over HTTP and on the folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mq.ctl.cli import mqctl
from mq.ctl.ways.by_http import HttpAccess
from mq.ctl.ways.by_root import RootAccess
from mq.errors import ExitCode
from tests.support.messages import names_in, pass_a_tick
from tests.support.mqctl import Ctl, assert_refused
from tests.support.processes import Server, wait_until
from tests.support.wire import Wire, take

UNKNOWN = "00c0ffee00c0ffee"
LARGE = os.urandom(600_000)


@pytest.fixture
def other(wire: Wire, queue: str) -> str:
    """A second queue."""
    wire.request("PUT", f"/{queue}.other")
    return f"{queue}.other"


def bury(server: Server, wire: Wire, queue: str, bodies: list[bytes]) -> list[str]:
    """Dead letters as the mover leaves them, received three times."""
    wire.request("PUT", f"/{queue}.dead")
    ids = [wire.publish(queue, body, content_type="text/x") for body in bodies]
    for message_id in ids:
        for _ in range(3):
            wire.request("GET", f"/{queue}/messages?id={message_id}")
        leased = server.root / "delay" / f"{queue}:{message_id}"
        leased.rename(server.root / "queues" / f"{queue}.dead" / message_id)
    wait_until(lambda: wire.count(f"{queue}.dead")[0] == len(bodies))
    return ids


def in_queue(server: Server, queue: str) -> list[str]:
    return names_in(Path(server.root) / "queues" / queue)


def test_redrive_keeps_id_type_and_place(server: Server, ctl: Ctl, wire: Wire, queue: str) -> None:
    bodies = [b"one", LARGE, b"three"]
    ids = bury(server, wire, queue, bodies)
    younger = wire.publish(queue, b"younger")

    redriven = ctl.ok("redrive", queue)

    assert redriven.out == b"moved 3 messages\n"
    wait_until(lambda: wire.count(queue) == (4, 0))
    taken = [wire.receive(queue) for _ in range(4)]
    assert [each.headers["x-message-id"] for each in taken] == [*ids, younger]
    assert [each.body for each in taken] == [*bodies, b"younger"]
    assert {each.headers["content-type"] for each in taken[:3]} == {"text/x"}
    assert {each.headers["x-receive-count"] for each in taken} == {"1"}
    assert in_queue(server, f"{queue}.dead") == []
    assert ctl("redrive", queue).code == ExitCode.EMPTY


def test_redrive_of_a_queue_without_dead_letters_says_that(ctl: Ctl, queue: str) -> None:
    for words in ([], ["--max", "1"], ["--id", "x"]):
        done = ctl("redrive", queue, *words)

        assert_refused(done, ExitCode.NOT_FOUND, f"queue {queue} has no dead letters")


def test_redrive_moves_so_many_or_those_or_elsewhere(
    server: Server, ctl: Ctl, wire: Wire, queue: str, other: str
) -> None:
    ids = bury(server, wire, queue, [b"one", b"two", b"three", b"four"])

    some = ctl.ok("redrive", queue, "--max", "1", "--json").json()
    by_id = ctl.ok("redrive", queue, "--id", ids[2], "--id", ids[3])
    elsewhere = ctl.ok("redrive", queue, "--to", other)

    assert some == {"queue": queue, "redriven": 1}
    assert by_id.out == b"moved 2 messages\n"
    assert elsewhere.out == b"moved 1 message\n"
    assert in_queue(server, queue) == sorted([ids[0], *ids[2:]])
    assert in_queue(server, other) == [ids[1]]


def test_redrive_out_of_a_queue_of_several_moves_only_what_died_here(
    server: Server, ctl: Ctl, wire: Wire, queue: str, other: str
) -> None:
    dead, died = f"{queue}.failed", dict[str, list[str]]()
    for each in (queue, other):
        wire.request("PUT", f"/{each}?max-receives=1&dead-letters={dead}")
        died[each] = [wire.publish(each, b"body") for _ in range(3)]
        for message_id in died[each]:
            for seconds in (30, 0):
                wire.request("GET", f"/{each}/messages?id={message_id}&visibility={seconds}")
    plain = wire.publish(dead, b"never died")
    (server.root / "queues" / queue / died[queue][0]).write_bytes(b"other")

    some = ctl.ok("redrive", queue, "-n", "2")
    rest = ctl.ok("redrive", queue)

    assert (some.out, rest.out) == (b"moved 1 message\n", b"moved 1 message\n")
    assert all(f"the first is {died[queue][0]}" in each.err for each in (some, rest))
    assert in_queue(server, queue) == sorted(died[queue])
    assert in_queue(server, dead) == sorted([died[queue][0], *died[other], plain])
    assert_refused(ctl("redrive", queue), ExitCode.REFUSED, died[queue][0])
    assert ctl.ok("redrive", queue, "--to", other, "--id", plain).out == b"moved 1 message\n"


@pytest.mark.parametrize("way", [HttpAccess, RootAccess])
def test_redrive_leaves_the_dead_letter_of_another_reader_that_has_got_the_id_since(
    server: Server, wire: Wire, queue: str, way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both readers have a copy under it. That of `other` comes when the first has been removed."""
    dead, other, peek = f"{queue}.failed", f"{queue}.other", way.peek
    for each in (queue, other):
        wire.request("PUT", f"/{each}?max-receives=1&dead-letters={dead}")
    published = wire.request("POST", f"/{queue}/messages?also={other}", b"body")
    message_id = published.headers["x-message-id"]

    def die(each: str) -> None:
        for seconds in (30, 0):
            wire.request("GET", f"/{each}/messages?id={message_id}&visibility={seconds}")

    def peek_long_before(*args: Any) -> Iterator[Any]:
        yield from peek(*args)
        wire.request("DELETE", f"/{dead}/messages/{message_id}")
        die(other)

    die(queue)
    monkeypatch.setattr(way, "peek", peek_long_before)

    where = ["--root", str(server.root)] if way is RootAccess else ["--url", server.url]
    done = CliRunner().invoke(mqctl, [*where, "redrive", queue])

    assert done.exit_code == ExitCode.EMPTY, done.output
    assert (in_queue(server, queue), in_queue(server, dead)) == ([], [message_id])


@pytest.mark.parametrize("more", [[], ["--max", "5"], ["--id", "job-1"]])
def test_redrive_brings_back_what_found_its_id_taken(
    server: Server, ctl: Ctl, wire: Wire, queue: str, more: list[str]
) -> None:
    """The second copy died in `.dead` of its queue, because the first is where both were to go."""
    other, dead = f"{queue}-other", f"{queue}-failed"
    for each in (queue, other):
        wire.request("PUT", f"/{each}?max-receives=1&dead-letters={dead}")
        wire.publish(each, each.encode(), x_message_id="job-1")
        wire.receive(each)
        assert take(wire, each, "job-1", "&visibility=0").status == 204

    assert ctl.ok("redrive", other, *more).out == b"moved 1 message\n"

    assert wire.receive(other).body == other.encode()
    assert in_queue(server, dead) == ["job-1"]


def test_redrive_passes_over_a_name_that_the_queue_has(
    server: Server, ctl: Ctl, wire: Wire, queue: str
) -> None:
    first, second = bury(server, wire, queue, [b"one", b"two"])
    (server.root / "queues" / queue / first).write_bytes(b"other")

    redriven = ctl.ok("redrive", queue)

    assert redriven.out == b"moved 1 message\n"
    assert f"the first is {first}" in redriven.err
    assert in_queue(server, f"{queue}.dead") == [first]
    assert (server.root / "queues" / queue / first).read_bytes() == b"other"
    assert second in in_queue(server, queue)
    assert_refused(ctl("redrive", queue), ExitCode.REFUSED, first)


@pytest.mark.parametrize("more", [[], ["--max", "1"], ["--id", "ID"]])
def test_redrive_loses_nothing_to_a_ttl_that_is_over(
    server: Server, ctl: Ctl, wire: Wire, queue: str, more: list[str]
) -> None:
    ids = bury(server, wire, queue, [b"one", b"two"])
    wire.request("PUT", f"/{queue}?ttl=0.000001")
    pass_a_tick()

    refused = ctl("redrive", queue, *(ids[0] if each == "ID" else each for each in more))

    assert_refused(refused, ExitCode.REFUSED, f"message {ids[0]} was published")
    assert in_queue(server, f"{queue}.dead") == ids


def test_redrive_of_what_is_missing(ctl: Ctl, queue: str) -> None:
    assert ctl("redrive", queue).code == ExitCode.NOT_FOUND
    assert ctl("redrive", "absent").code == ExitCode.NOT_FOUND
    assert_refused(ctl("redrive", "orders.dead"), ExitCode.USAGE, "orders")


def test_move_brings_all_that_is_ready_in_its_order(
    server: Server, ctl: Ctl, wire: Wire, queue: str, other: str
) -> None:
    ids = [wire.publish(queue, b"body") for _ in range(3)]

    moved = ctl.ok("move", queue, other, "--json").json()

    assert moved == {"source": queue, "target": other, "moved": 3}
    assert in_queue(server, other) == sorted(ids)
    assert ctl("move", queue, other).code == ExitCode.EMPTY
    assert ctl.ok("move", other, queue, "-n", "2").out == b"moved 2 messages\n"
    assert in_queue(server, other) == [ids[2]]


def test_move_of_one_under_its_lease_with_a_reason(
    ctl: Ctl, wire: Wire, queue: str, other: str
) -> None:
    message_id = wire.publish(queue, b"body")
    lease = ctl.ok("recv", queue, "--json").json()["lease"]
    words = ("move", queue, other, "--id", message_id, "--reason", "bad address")

    assert_refused(ctl(*words, "--lease", UNKNOWN), ExitCode.REFUSED, "does not have that lease")
    moved = ctl.ok(*words, "--lease", lease)

    assert moved.out == b"moved 1 message\n"
    shown = wire.receive(other).headers
    assert (shown["x-dead-from"], shown["x-dead-reason"]) == (queue, "bad address")
    assert ctl(*words).code == ExitCode.NOT_FOUND


def test_peek_shows_where_a_dead_letter_is_from(
    ctl: Ctl, wire: Wire, queue: str, other: str
) -> None:
    message_id = wire.publish(queue, b"body")
    ctl.ok("move", queue, other, "--reason", "bad address")

    by_id = ctl.ok("peek", other, message_id, "--json").json()
    line = ctl.ok("peek", other, "--json").json()
    received = ctl.ok("recv", other, "--json").json()

    for shown in (by_id, line, received):
        assert (shown["dead_from"], shown["dead_reason"]) == (queue, "bad address")


@pytest.mark.parametrize(
    "words",
    [["a", "b", "--max", "1", "--id", "1"], ["a", "b", "--lease", UNKNOWN],
     ["a", "b", "--lease", UNKNOWN, "--id", "1", "--id", "2"], ["a", "b", "--reason", ""],
     ["a", "b", "--reason", "caf\u00e9"], ["a", "b", "--reason", "x" * 256], ["a"]],
)  # fmt: skip
def test_move_refuses_what_does_not_go_together(no_way: Ctl, words: list[str]) -> None:
    assert no_way("move", *words).code == ExitCode.USAGE


def test_move_within_one_queue_or_to_a_missing_one(ctl: Ctl, wire: Wire, queue: str) -> None:
    wire.request("PUT", f"/{queue}.empty")
    wire.publish(queue, b"body")

    assert_refused(ctl("move", queue, queue), ExitCode.USAGE, "in it already")
    assert_refused(ctl("move", f"{queue}.empty", "absent"), ExitCode.NOT_FOUND, "absent")
    assert_refused(ctl("move", queue, "absent"), ExitCode.NOT_FOUND, "absent")
    assert_refused(ctl("move", "absent", queue), ExitCode.NOT_FOUND, "absent")
    assert wire.count(queue) == (1, 0)


def test_import_takes_the_dead_letters_that_recv_and_peek_wrote(
    ctl: Ctl, wire: Wire, queue: str, other: str
) -> None:
    wire.request("PUT", f"/{queue}.dead")
    for body in ("one", "two"):
        sent = ctl.ok("send", queue, body).out.decode().strip()
        ctl.ok("move", queue, f"{queue}.dead", "--id", sent, "--reason", "no such shop")
    lines = ctl.ok("recv", f"{queue}.dead", "--json").out
    lines += ctl.ok("peek", f"{queue}.dead", "--json").out
    assert lines.count(b"no such shop") == 2

    ctl.ok("import", other, stdin=lines)

    assert [line["body"] for line in ctl.ok("export", other).lines()] == ["one", "two"]


def test_a_move_that_is_interrupted_says_that_more_may_be_moved(
    server: Server, wire: Wire, queue: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.publish(queue, b"one")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RootAccess, "move", interrupt)

    said = CliRunner().invoke(mqctl, ["--root", str(server.root), "move", queue, other]).output

    assert said.startswith("moved 0 messages by then; what was under way may be moved too\n")
