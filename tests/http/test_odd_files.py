"""Files that a person put there, or a disk damaged: their times and seals may say anything, and
every route still answers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.messages import SECOND_NS, read_seal, seal_of, write_message
from tests.support.processes import Server
from tests.support.wire import Wire, take

YEAR_1820 = -4_733_510_400
YEAR_1969 = -1
YEAR_2400 = 13_569_465_600
YEAR_3000 = 32_503_680_000
YEAR_12000 = 316_516_377_600

MOST = (1 << 32) - 1


@pytest.fixture(scope="module", params=["disk", "memory"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """File systems differ in the times that they keep; one in memory keeps all of them."""
    is_on_disk = request.param == "disk"
    if not is_on_disk and not os.access("/dev/shm", os.W_OK):
        pytest.skip("no /dev/shm here")
    where = tmp_path_factory.mktemp("mq") if is_on_disk else "/dev/shm"
    with tempfile.TemporaryDirectory(dir=where) as folder:
        server = Server(Path(folder) / "root", log=Path(folder) / "mq.log")
        yield server
        server.kill()
        assert "Traceback" not in server.log()


@pytest.mark.parametrize("seconds", [YEAR_1820, YEAR_1969, YEAR_2400, YEAR_3000, YEAR_12000])
def test_a_file_of_any_mtime_is_shown_and_given_out(
    server: Server, wire: Wire, queue: str, seconds: int
) -> None:
    orders = server.root / "queues" / queue
    for name in ("1", "2", "3"):
        path = write_message(orders / name)
        os.utime(path, (seconds, seconds))
    kept = int(os.stat(orders / "1").st_mtime)

    listed = wire.request("GET", f"/{queue}/messages?peek&max=10")
    peeked = wire.request("GET", f"/{queue}/messages?peek")
    first, second = wire.receive(queue), take(wire, queue, "2")
    many = wire.request("GET", f"/{queue}/messages?max=10")

    answers = [listed, peeked, first, second, many]
    assert [each.status for each in answers] == [200] * 5
    assert listed.body.count(b"\n") == 3
    assert wire.request("GET", f"/{queue}").status == 200
    published = first.headers["x-published-at"]
    assert published == peeked.headers["x-published-at"]
    if kept <= 0:
        assert published == "1970-01-01T00:00:00.000000Z"
    elif kept == YEAR_12000:
        assert published.startswith("2554-")
    for answer in (first, second):
        name = answer.headers["x-message-id"]
        assert wire.remove(queue, name, if_match=answer.headers["etag"]).status == 202


@pytest.mark.parametrize("seconds", [YEAR_1820, YEAR_2400, YEAR_3000, YEAR_12000])
@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_file_in_delay_of_any_mtime_is_shown_and_taken(
    server: Server, wire: Wire, queue: str, seconds: int, is_sealed: bool
) -> None:
    seal = seal_of(b"body") if is_sealed else None
    path = write_message(server.root / "delay" / f"{queue}:1", seal=seal)
    os.utime(path, (seconds, seconds))

    peeked = wire.request("GET", f"/{queue}/messages?peek&id=1")
    assert peeked.status == 200
    assert peeked.headers["x-visible-at"][:2] != "0000"
    assert take(wire, queue, "1").status == 200


@pytest.mark.parametrize("count", [MOST - 1, MOST])
def test_a_count_that_can_say_no_more_stays_there(
    server: Server, wire: Wire, queue: str, count: int
) -> None:
    path = server.root / "queues" / queue / "1"
    write_message(path, seal=seal_of(b"body", count=count))

    first = wire.receive(queue)
    again = take(wire, queue, "1")

    assert (first.status, again.status) == (200, 200)
    assert {first.headers["x-receive-count"], again.headers["x-receive-count"]} == {str(MOST)}
    assert read_seal(server.root / "delay" / f"{queue}:1").receive_count == MOST
    assert wire.request("GET", f"/{queue}/messages?id=1&visibility=0").status == 204
    assert wire.request("GET", f"/{queue}/messages?max=2").status == 200


def test_times_of_a_seal_may_be_the_last_that_it_can_say(
    server: Server, wire: Wire, queue: str
) -> None:
    path = server.root / "queues" / queue / "1"
    last_ns = (1 << 64) - 1
    write_message(path, seal=seal_of(b"body", published_ns=last_ns, lease=last_ns))

    assert wire.request("GET", f"/{queue}/messages?peek").status == 200
    received = wire.receive(queue)

    assert received.status == 200
    assert received.headers["x-published-at"].startswith("2554-")
    assert wire.request("GET", f"/{queue}").status == 200


def test_what_a_person_wrote_back_in_time_comes_first(
    server: Server, wire: Wire, queue: str
) -> None:
    orders = server.root / "queues" / queue
    for name, seconds in (("b", 10), ("a", 20), ("c", YEAR_1969)):
        os.utime(write_message(orders / name), ns=(seconds * SECOND_NS, seconds * SECOND_NS))

    ids = [wire.receive(queue).headers["x-message-id"] for _ in range(3)]

    assert ids == ["c", "b", "a"]
