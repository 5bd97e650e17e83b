"""Clients that go away midway: half an upload leaves nothing, what nobody got is ready again."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web

from mq.web.answers import Response
from mq.web.connections.presence import send_if_half_closed
from mq.web.endpoints import receiving
from tests.support.processes import Server, wait_until
from tests.support.sites import close, site_on
from tests.support.wire import (
    PIECE_BYTES,
    SMALL_BODY_BYTES,
    Wire,
    WireAnswer,
    files_of,
    has_answer,
    make_queue,
    request_bytes,
    wait_until_closed,
    wait_until_read,
)

FOREIGN_FILES = 15_000
"""With this many, the listing that a queue's first receive waits for takes a tenth of a second."""

either_way = pytest.mark.parametrize("leave", [Wire.close, Wire.reset], ids=["fin", "rst"])


@pytest.fixture(params=["disk", "memory"])
def any_server(
    request: pytest.FixtureRequest, start_server: Callable[..., Server]
) -> Iterator[Server]:
    """A root on each kind of medium: file work runs in a thread, or on the event loop itself."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if request.param == "memory" else None) as at:
        server = start_server(root=Path(at) / "root")
        yield server
        server.kill()


@pytest.fixture
def witness(any_server: Server, connect: Callable[[Server], Wire]) -> Wire:
    """Another client, who stays."""
    return connect(any_server)


def unfinished_uploads(server: Server) -> int:
    """Unnamed files that the server holds open."""
    links: list[str] = []
    for fd in Path(f"/proc/{server.popen.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # It was closed meanwhile.
            links.append(os.readlink(fd))
    return sum(link.startswith(str(server.root)) and "(deleted)" in link for link in links)


def wait_until_ready(witness: Wire, queue: str, count: int) -> None:
    """The lease was ended, it did not run out: there is no mover."""
    wait_until(lambda: witness.count(queue) == (count, 0))


@either_way
@pytest.mark.parametrize("sent", [0, 1000, SMALL_BODY_BYTES + 1, PIECE_BYTES + 1, 1_000_000])
@pytest.mark.parametrize("framing", ["Content-Length: 2000000", "Transfer-Encoding: chunked"])
def test_half_an_upload_leaves_nothing(
    server: Server, queue: str, framing: str, sent: int, leave: Callable[[Wire], None]
) -> None:
    gone = Wire(server.port)
    name, _, value = framing.partition(": ")
    gone.send(
        request_bytes("POST", f"/{queue}/messages", **{name: value}),
        b"%x\r\n" % 2_000_000 if value == "chunked" else b"",
        b"b" * sent,
    )
    wait_until_read(server, gone)
    wait_until(lambda: unfinished_uploads(server) == (sent > PIECE_BYTES))

    leave(gone)
    wait_until_closed(server, gone.local_port)

    wait_until(lambda: unfinished_uploads(server) == 0)
    assert files_of(server, queue) == []


@either_way
def test_a_message_whose_receiver_left_while_the_server_worked_was_never_received(
    any_server: Server, witness: Wire, leave: Callable[[Wire], None]
) -> None:
    while True:
        queue = make_queue(witness)
        for number in range(FOREIGN_FILES):
            (any_server.root / "queues" / queue / f"{number:05}").touch()
        gone = Wire(any_server.port)
        gone.send(request_bytes("GET", f"/{queue}/messages"))
        wait_until_read(any_server, gone)
        if not has_answer(gone):
            break
        gone.close()

    leave(gone)

    wait_until_closed(any_server, gone.local_port)
    wait_until_ready(witness, queue, FOREIGN_FILES)
    assert witness.receive(queue).headers["x-receive-count"] == "1"


@pytest.mark.parametrize("size", [4, 600_000])
def test_a_message_whose_receiver_closed_at_once_was_never_received(
    any_server: Server, witness: Wire, size: int
) -> None:
    queue = make_queue(witness)
    message_id = witness.publish(queue, b"b" * size)
    for _ in range(10):
        gone = Wire(any_server.port)
        # Request and end are there before the server sees either.
        any_server.popen.send_signal(signal.SIGSTOP)
        gone.send(request_bytes("GET", f"/{queue}/messages"))
        gone.close()
        any_server.popen.send_signal(signal.SIGCONT)
        wait_until_closed(any_server, gone.local_port)
        wait_until_ready(witness, queue, 1)

    received = witness.receive(queue)

    assert received.headers["x-message-id"] == message_id
    assert received.headers["x-receive-count"] == "1"
    assert received.body == b"b" * size


@either_way
def test_a_message_whose_receiver_left_in_the_middle_of_it_was_never_received(
    any_server: Server, witness: Wire, leave: Callable[[Wire], None]
) -> None:
    queue = make_queue(witness)
    body = os.urandom(1_000_000) * 20
    message_id = witness.publish(queue, body)
    gone = Wire(any_server.port)
    gone.send(request_bytes("GET", f"/{queue}/messages"))
    assert gone.socket.recv(100_000).startswith(b"HTTP/1.1 200 OK")

    leave(gone)

    wait_until_ready(witness, queue, 1)
    received = witness.receive(queue)
    assert received.headers["x-message-id"] == message_id
    assert received.headers["x-receive-count"] == "1"
    assert (received.body == body) is True


def test_a_receiver_that_reads_to_the_end_and_then_leaves_keeps_its_lease(
    any_server: Server, witness: Wire
) -> None:
    queue = make_queue(witness)
    witness.publish(queue, b"b" * 1_000_000)
    gone = Wire(any_server.port)
    received: WireAnswer = gone.receive(queue)

    gone.close()

    wait_until_closed(any_server, gone.local_port)
    assert len(received.body) == 1_000_000
    assert witness.count(queue) == (0, 1)


@pytest.mark.parametrize("query", ["?wait=1", "?max=10"])
async def test_a_receiver_that_reads_to_the_end_and_then_resets_keeps_its_lease(
    root: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """HAProxy resets connections that it keeps no longer. Here the server looks after that."""

    async def look_late(request: web.BaseRequest, answering: Awaitable[Response]) -> Response:
        async def answer() -> Response:
            written = await answering
            transport = request.transport
            assert transport is not None
            while transport.get_write_buffer_size():
                await asyncio.sleep(0)
            poll = select.poll()
            poll.register(transport.get_extra_info("socket"), select.POLLHUP)
            assert poll.poll(10_000)
            return written

        return await send_if_half_closed(request, answer())

    def read_and_reset(port: int) -> int:
        client = Wire(port)
        received = client.request("GET", f"/orders/messages{query}")
        client.reset()
        return len(received.body)

    monkeypatch.setattr(receiving, "send_if_half_closed", look_late)
    async with site_on(root) as site:
        await site.ask("POST", "/orders/messages", b"b" * 3 * SMALL_BODY_BYTES)
        _, writer = await site.connect()
        _, port = writer.get_extra_info("peername")
        await close(writer)

        length = await asyncio.to_thread(read_and_reset, port)

        assert length >= 3 * SMALL_BODY_BYTES
        counts = await site.ask("GET", "/orders")
        assert (counts.json()["ready"], counts.json()["leased"]) == (0, 1)
