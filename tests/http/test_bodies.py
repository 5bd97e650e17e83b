"""A body that is read while its client comes and goes."""

from __future__ import annotations

import asyncio
import errno
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler
from structlog.testing import capture_logs

from mq.config import KIB
from mq.store.bodies import Download
from mq.store.publishing.publish import Entry
from mq.web import bodies
from mq.web.api import make_api
from mq.web.connections.connection import Connection
from mq.web.connections.framing import MAX_WAITING_BYTES
from mq.web.connections.http_server import HttpServer
from mq.web.durations import Durations
from mq.web.origin_policy import OriginPolicy
from tests.support.sites import close, parse_answer, site_on
from tests.support.stores import ORDERS, store_on
from tests.support.wire import request_bytes

MOST_READ_BYTES = 256 * KIB
"""What asyncio reads of a socket at once."""


class RawClient(asyncio.Transport):
    """The server's end of a connection, without a socket."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        raise AssertionError(f"answered to nobody: {bytes(data)!r}")

    def is_closing(self) -> bool:
        return True

    def close(self) -> None: ...


async def test_a_client_that_left_before_its_body_was_asked_for_is_no_defect(root: Path) -> None:
    async with store_on(root) as store:
        connection = HttpServer(make_api(store, None, Durations(), OriginPolicy(("mq",))))()
        connection.connection_made(RawClient())
        await asyncio.sleep(0)
        with capture_logs() as logged:
            connection.data_received(
                b"POST /orders/messages HTTP/1.1\r\nHost: mq\r\nContent-Length: 9\r\n\r\nhalf"
            )
            await asyncio.sleep(0)  # the request is taken up, its handler comes next
            connection.connection_lost(None)
            for _ in range(10):
                await asyncio.sleep(0)

        assert logged == []
        assert (await store.describe_queue(ORDERS)).ready == 0


async def test_a_client_that_is_gone_ends_its_body_before_the_handler_has_begun(root: Path) -> None:
    """Between two turns of the event loop aiohttp has taken the request, and not begun with it."""
    async with site_on(root) as site:
        reader, writer = await site.connect()
        head = request_bytes("POST", "/orders/messages", content_length="1000")

        writer.write(head + b"half")
        writer.write_eof()

        answer = await parse_answer(reader, "POST")
        assert answer.status == 400
        assert "the client closed the connection before its end" in answer.json()["detail"]
        await close(writer)


async def test_a_piece_of_a_body_may_begin_like_another_protocol(root: Path) -> None:
    async with site_on(root) as site:
        reader, writer = await site.connect()
        body = b"GET /orders RTSP/1.0\r\n\r\n"
        writer.write(request_bytes("POST", "/orders/messages", content_length=f"{len(body)}"))
        await wait_for(lambda: any(waits_for_more(each) for each in site.http.busy))

        writer.write(body + request_bytes("GET", "/orders"))

        statuses = [(await parse_answer(reader, each)).status for each in ("POST", "GET")]
        assert statuses == [201, 200]
        await close(writer)


async def test_a_refused_batch_leaves_nothing_in_memory(root: Path) -> None:
    """The garbage collector would come for it only when there is much more."""
    lines = b'{"body": "%b"}\n' % (b"b" * 1000) * 100 + b'{"body": 1}\n'
    head = {"content_type": "application/x-ndjson"}
    async with site_on(root) as site:
        reader, writer = await site.connect()
        with garbage_left_alone():
            writer.write(request_bytes("POST", "/orders/messages?batch", lines, **head))
            assert (await parse_answer(reader, "POST")).status == 400
            await wait_for(lambda: not any(isinstance(each, Entry) for each in gc.get_objects()))

        await close(writer)


async def test_half_a_body_leaves_nothing_in_memory(root: Path) -> None:
    async with site_on(root) as site:
        _, writer = await site.connect()
        with garbage_left_alone():
            head = request_bytes("POST", "/orders/messages", content_length="1000000")
            writer.write(head + b"b" * 600_000)
            await wait_for(lambda: any(waits_for_more(each) for each in site.http.busy))
            await close(writer)
            await wait_for(lambda: not site.http.busy)
            await wait_for(lambda: not any(is_frame_of(bodies, each) for each in gc.get_objects()))


async def test_what_is_not_http_leaves_nothing_in_memory(root: Path) -> None:
    async with site_on(root) as site:
        reader, writer = await site.connect()
        with garbage_left_alone():
            writer.write(b"\0" * 100_000)
            assert (await parse_answer(reader, "GET")).status == 400
            await close(writer)
            await wait_for(lambda: not site.http.connections)

            assert not [each for each in gc.get_objects() if isinstance(each, HttpProcessingError)]


async def test_a_connection_that_is_lost_leaves_nothing_in_memory(root: Path) -> None:
    poll = request_bytes("GET", "/orders/messages?wait=60")
    async with site_on(root) as site:
        _, writer = await site.connect()
        with garbage_left_alone():
            writer.write(poll + request_bytes("POST", "/orders/messages", b"body") * 3)
            await wait_for(lambda: bool(site.http.busy))
            writer.transport.abort()
            await wait_for(lambda: not site.http.connections)

            await wait_for(
                lambda: not any(isinstance(each, Connection) for each in gc.get_objects())
            )


async def test_a_body_whose_end_is_broken_is_400_though_all_of_it_has_come(root: Path) -> None:
    async with site_on(root) as site:
        reader, writer = await site.connect()
        writer.write(
            request_bytes("POST", "/orders/messages", transfer_encoding="chunked")
            + b"4\r\nbody\r\n"
        )
        await wait_for(lambda: any(map(waits_for_more, site.http.connections)))
        writer.write(b"0;" + b"e" * 20_000 + b"\r\n\r\n")

        assert (await parse_answer(reader, "POST")).status == 400
        assert (await site.store.describe_queue(ORDERS)).ready == 0
        await close(writer)


async def test_a_body_that_trickles_is_408(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No piece comes too late, and all of them together do."""
    monkeypatch.setattr(bodies, "MIN_BODY_BYTES_PER_SECOND", 100 * KIB * KIB)
    async with site_on(root) as site:
        reader, writer = await site.connect()
        await wait_for(lambda: bool(site.http.connections))
        connection: Any = site.http.connections[0]
        connection.body_timeout_seconds = 0.3
        writer.write(request_bytes("POST", "/orders/messages", content_length="10000"))

        async def trickle() -> None:
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.01)

        trickling = asyncio.create_task(trickle())
        async with asyncio.timeout(20):
            answer = await parse_answer(reader, "POST")
        trickling.cancel()
        assert answer.status == 408
        await close(writer)


async def test_an_answer_that_cannot_be_read_to_its_end_ends_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came after it would be taken for the rest of the body."""
    whole, body = Download.chunks, b"x" * 600_000

    async def broken(download: Download) -> AsyncIterator[bytes]:
        async for chunk in whole(download):
            yield chunk
            raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(Download, "chunks", broken)
    async with site_on(root) as site:
        await site.ask("POST", "/orders/messages", body)
        reader, writer = await site.connect()
        with capture_logs() as logged:
            writer.write(request_bytes("GET", "/orders/messages"))
            head = await reader.readuntil(b"\r\n\r\n")
            came = await reader.read()

        assert head.startswith(b"HTTP/1.1 200 ")
        assert 0 < len(came) < len(body)
        assert body.startswith(came)
        assert [each["event"] for each in logged] == ["request failed"]
        await close(writer)


async def test_few_bodies_are_read_behind_a_request_under_way(root: Path) -> None:
    """Each connection could take 31 of half a mebibyte each, in the name of anyone."""
    number = 30
    async with site_on(root) as site:
        reader, writer = await site.connect()
        writer.write(request_bytes("GET", "/orders/messages?wait=60"))
        await wait_for(lambda: bool(site.http.busy))
        [connection] = site.http.busy
        writer.write(request_bytes("POST", "/orders/messages", b"x" * 600_000) * number)

        await wait_for(lambda: connection._buffer_paused)
        read = sum(body.total_bytes for _, body in connection._messages)
        assert read <= MAX_WAITING_BYTES + MOST_READ_BYTES
        await site.ask("POST", "/orders/messages", b"first")

        statuses = [(await parse_answer(reader, "POST")).status for _ in range(1 + number)]
        assert statuses == [200] + [201] * number
        await close(writer)


async def wait_for(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def waits_for_more(connection: RequestHandler) -> bool:
    request = connection._current_request
    return request is not None and request.content._waiter is not None


def is_frame_of(module: ModuleType, each: object) -> bool:
    return isinstance(each, FrameType) and each.f_code.co_filename == module.__file__


@contextmanager
def garbage_left_alone() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
