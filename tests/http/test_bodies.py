"""A body that is read while its client comes and goes."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from structlog.testing import capture_logs

from mq.store.publishing.publish import Entry
from mq.web.api import make_api
from mq.web.http_server import HttpServer
from tests.support.sites import close, parse_answer, site_on
from tests.support.stores import ORDERS, store_on
from tests.support.wire import request_bytes


class RawClient(asyncio.Transport):
    """The server's end of a connection, without a socket."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        raise AssertionError(f"answered to nobody: {bytes(data)!r}")

    def is_closing(self) -> bool:
        return True

    def close(self) -> None: ...


async def test_a_client_that_left_before_its_body_was_asked_for_is_no_defect(root: Path) -> None:
    async with store_on(root) as store:
        connection = HttpServer(make_api(store))()
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


async def test_a_refused_batch_leaves_nothing_in_memory(root: Path) -> None:
    """The garbage collector would come for it only when there is much more."""
    lines = b'{"body": "%b"}\n' % (b"b" * 1000) * 100 + b'{"body": 1}\n'
    head = {"content_type": "application/x-ndjson"}
    async with site_on(root) as site:
        reader, writer = await site.connect()
        with garbage_left_alone():
            writer.write(request_bytes("POST", "/orders/messages?batch", lines, **head))
            answer = await parse_answer(reader, "POST")
            left = [each for each in gc.get_objects() if isinstance(each, Entry)]

        assert (answer.status, left) == (400, [])
        await close(writer)


@contextmanager
def garbage_left_alone() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
