"""A full disk: publish is refused, receive and remove go on, and service returns by itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.processes import Server, wait_until
from tests.support.wire import Wire, WireAnswer, chunked, request_bytes

StartServer = Callable[..., Server]

SIZES = pytest.mark.parametrize("size", [100, 20_000, 200_000])


@pytest.fixture
def small_disk(loop_mount: Callable[..., Path], request: pytest.FixtureRequest) -> Path:
    return loop_mount("ext4", 24, mount=getattr(request, "param", ()))


EXACT_ROOM = pytest.mark.parametrize("small_disk", [("nodelalloc",)], indirect=True, ids=[""])
"""While ext4 writes delayed blocks out it says for a moment that up to 2 MiB more are taken."""


@pytest.fixture
def open_wire(start_server: StartServer, small_disk: Path) -> Iterator[Callable[..., Wire]]:
    """`open_wire("--min-free=0")` connects to a server on the small disk, with a queue."""
    wires: list[Wire] = []

    def connect(*flags: str) -> Wire:
        wires.append(Wire(start_server(*flags, root=small_disk / "root").port))
        assert wires[-1].request("PUT", "/orders").status == 201
        return wires[-1]

    yield connect
    for wire in wires:
        wire.close()


def _fill(disk: Path) -> Path:
    """Take all the room there is, to the last byte that anybody may have."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
        with suppress(OSError):
            os.fsync(file.fileno())
    return filler


def _assert_unavailable(answer: WireAnswer) -> None:
    assert answer.status == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["type"] == "urn:mq:problem:unavailable"


@SIZES
def test_full_disk_refuses_publish_alone_and_recovers(
    open_wire: Callable[..., Wire], small_disk: Path, size: int
) -> None:
    wire = open_wire("--min-free=0")
    published = [wire.publish("orders", b"%d" % number) for number in range(20)]
    filler = _fill(small_disk)

    for _ in range(3):
        _assert_unavailable(wire.request("POST", "/orders/messages", os.urandom(size)))

    for message_id in published[:10]:
        received = wire.receive("orders")
        assert (received.status, received.headers["x-message-id"]) == (200, message_id)
        assert wire.remove("orders", message_id, If_Match=received.headers["etag"]).status == 202

    filler.unlink()
    body = os.urandom(size)
    wait_until(lambda: wire.request("POST", "/orders/messages", body).status == 201)
    assert [wire.receive("orders").headers["x-message-id"] for _ in range(10)] == published[10:]
    assert wire.receive("orders").body == body
    assert os.listdir(small_disk / "root" / "new") == []


def test_floor_refuses_publish_before_the_disk_is_full(
    open_wire: Callable[..., Wire], small_disk: Path
) -> None:
    wire = open_wire("--min-free=8MiB")
    message_id = wire.publish("orders")
    filler = small_disk / "filler"
    os.posix_fallocate(fd := os.open(filler, os.O_CREAT | os.O_WRONLY), 0, 14 << 20)
    os.close(fd)

    refusal = wire.request("POST", "/orders/messages", b"body")

    _assert_unavailable(refusal)
    assert "--min-free" in refusal.json()["detail"]
    assert wire.receive("orders").headers["x-message-id"] == message_id
    assert wire.remove("orders", message_id).status == 202
    filler.unlink()
    wait_until(lambda: wire.request("POST", "/orders/messages", b"body").status == 201)


def _free(disk: Path) -> int:
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize


@contextmanager
def wires_beside(wire: Wire, number: int) -> Iterator[list[Wire]]:
    """`number` more connections to the server of `wire`."""
    with ExitStack() as stack:
        port = wire.socket.getpeername()[1]
        yield [stack.enter_context(closing(Wire(port))) for _ in range(number)]


FLOOR = 8 << 20
SLACK = 1 << 18
"""Folders, inodes and the blocks that tell where blocks are; a body is counted by its length."""


@EXACT_ROOM
@pytest.mark.parametrize("clients", [1, 12])
@pytest.mark.parametrize("target", ["/orders/messages", "/orders/messages?batch"])
def test_unfinished_bodies_stay_above_the_floor(
    open_wire: Callable[..., Wire], small_disk: Path, clients: int, target: str
) -> None:
    """No client says how long its body will be, and no body comes to its end."""
    wire = open_wire(f"--min-free={FLOOR}")
    head = request_bytes(
        "POST", target, transfer_encoding="chunked", content_type="application/x-ndjson"
    )
    with wires_beside(wire, clients) as uploads:
        for each in uploads:
            each.send(head)

        refused: set[Wire] = set()
        for _ in range(200):
            for each in set(uploads) - refused:
                try:
                    each.send(chunked(bytes(1 << 17), 1 << 17, end=b""))
                except OSError:
                    refused.add(each)
                assert _free(small_disk) >= FLOOR - SLACK

        if clients == 1 and "batch" not in target:
            _assert_unavailable(uploads[0].answer())

    wait_until(lambda: wire.request("POST", "/orders/messages", b"body").status == 201)


def test_a_body_that_is_too_long_for_the_disk_is_refused_before_it_is_sent(
    open_wire: Callable[..., Wire],
) -> None:
    wire = open_wire(f"--min-free={FLOOR}")

    wire.send(request_bytes("POST", "/orders/messages", content_length=str(20 << 20)))

    refusal = wire.answer()
    _assert_unavailable(refusal)
    assert "--min-free" in refusal.json()["detail"]


@EXACT_ROOM
def test_many_small_bodies_at_once_stay_above_the_floor(
    open_wire: Callable[..., Wire], small_disk: Path
) -> None:
    """More of them than there is room for come into one batch."""
    wire = open_wire(f"--min-free={FLOOR}")
    request = request_bytes("POST", "/orders/messages", bytes(60_000))
    statuses: list[int] = []
    with wires_beside(wire, 64) as others:
        for _ in range(6):
            for each in others:
                each.send(request)
            statuses += [each.answer().status for each in others]
            assert _free(small_disk) >= FLOOR - 4 * SLACK

    assert set(statuses) == {201, 503}


def test_default_floor_counts_inodes_too(open_wire: Callable[..., Wire], small_disk: Path) -> None:
    wire = open_wire()
    message_id = wire.publish("orders")
    crowd = small_disk / "crowd"
    crowd.mkdir()
    with suppress(OSError):
        for number in range(1_000_000):
            (crowd / str(number)).touch()

    refusal = wire.request("POST", "/orders/messages", b"body")

    _assert_unavailable(refusal)
    assert "inodes are free" in refusal.json()["detail"]
    assert wire.receive("orders").headers["x-message-id"] == message_id
    assert wire.remove("orders", message_id).status == 202


def test_server_that_is_killed_on_a_full_disk_starts_again(
    start_server: StartServer, small_disk: Path
) -> None:
    server = start_server("--min-free=0", root=small_disk / "root")
    with closing(Wire(server.port)) as wire:
        wire.request("PUT", "/orders")
        published = [wire.publish("orders") for _ in range(5)]
        lease = wire.receive("orders").headers["etag"]
        filler = _fill(small_disk)
        _assert_unavailable(wire.request("POST", "/orders/messages", bytes(20_000)))
    server.kill()

    server = start_server("--min-free=0", root=small_disk / "root")

    with closing(Wire(server.port)) as wire:
        assert wire.remove("orders", published[0], If_Match=lease).status == 202
        received = [wire.receive("orders").headers["x-message-id"] for _ in range(4)]
        assert received == published[1:]
        filler.unlink()
        wait_until(lambda: wire.request("POST", "/orders/messages", b"body").status == 201)
    assert os.listdir(small_disk / "root" / "new") == []
