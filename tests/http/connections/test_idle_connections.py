"""How long a connection stays open on which nothing happens."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mq.commit.operation import Submitted
from mq.web.connections import http_server
from tests.support.sites import close, parse_answer, site_on
from tests.support.stores import eventually
from tests.support.wire import request_bytes


async def test_an_idle_connection_is_closed_and_one_with_a_request_under_way_is_not(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "KEEPALIVE_SECONDS", 0.05)
    async with site_on(root) as site:
        reader, writer = await site.connect()
        writer.write(request_bytes("POST", "/orders/messages", b"1"))
        await parse_answer(reader, "POST")
        committer, held = site.store._committer, list[Submitted]()

        async def is_held() -> bool:
            return len(held) == 1

        with monkeypatch.context() as holding:
            holding.setattr(committer, "submit", held.append)
            writer.write(request_bytes("POST", "/orders/messages", b"2"))
            await eventually(is_held)
            await asyncio.sleep(0.1)
        committer.submit(held[0])

        assert (await parse_answer(reader, "POST")).status == 201
        assert await reader.read() == b""
        await close(writer)
