"""Receives that wait in line for a message, as long as their clients are there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mq.commit.operation import Done
from tests.support.batches import lines_of
from tests.support.sites import BOTH, close, parse_answer, site_on
from tests.support.stores import eventually
from tests.support.waiting import parked
from tests.support.wire import request_bytes


@pytest.mark.parametrize("number", [1, 3], ids=["parsed", "known"])
async def test_a_receive_that_finds_nothing_waits(root: Path, number: int) -> None:
    async with site_on(root) as site:
        for _ in range(number - 1):
            assert (await site.ask("GET", "/orders/messages?wait=0.01")).status == 204

        waiting = asyncio.create_task(site.ask("GET", "/orders/messages?wait=20"))
        await parked(site.store, 1)
        published = await site.ask("POST", "/orders/messages", b"late")
        received = await waiting
        assert (received.status, received.body) == (200, b"late")
        assert received.headers["x-message-id"] == published.headers["x-message-id"]
        assert received.headers["x-receive-count"] == "1"
        assert set(site.way.taken) == {"GET", "POST"}


@pytest.mark.parametrize("kind", BOTH)
async def test_one_who_leaves_the_line_is_not_waited_for(root: Path, kind: str) -> None:
    async with site_on(root, kind) as site:
        request = request_bytes("GET", "/orders/messages?wait=20&max=2", **site.headers)
        _, leaving = await site.connect()
        reader, staying = await site.connect()
        for number, writer in enumerate((leaving, staying), start=1):
            writer.write(request)
            await parked(site.store, number)
        leaving.transport.abort()
        await parked(site.store, 1)
        assert len(site.http.busy) == 1

        published = await site.ask("POST", "/orders/messages", b"body")

        [line] = lines_of(await parse_answer(reader, "GET"))
        assert line["id"] == published.headers["x-message-id"]
        assert line["receive_count"] == 1
        assert not site.http.busy
        assert site.store.answer_memory._held_bytes == 0
        assert "get" not in site.way.taken[1:]
        await close(staying)


async def test_one_who_closes_its_own_direction_waits_no_longer(root: Path) -> None:
    async with site_on(root) as site:
        reader, writer = await site.connect()
        writer.write(request_bytes("GET", "/orders/messages?wait=20"))
        await parked(site.store, 1)

        writer.write_eof()

        async with asyncio.timeout(10):
            assert (await parse_answer(reader, "GET")).status == 204
            assert await reader.read() == b""
        assert not site.http.busy
        await close(writer)


@pytest.mark.parametrize("leave", ["abort", "write_eof"])
async def test_one_who_left_before_it_was_in_line_does_not_stay_there(
    root: Path, monkeypatch: pytest.MonkeyPatch, leave: str
) -> None:
    """A message was there, and another server was faster."""
    async with site_on(root) as site:
        tell: list[Done] = []
        monkeypatch.setattr(site.store, "count_spare", lambda queue: 1)
        monkeypatch.setattr(
            site.store, "submit_receive", lambda queue, done, *asked, may_wait: tell.append(done)
        )
        reader, writer = await site.connect()
        writer.write(request_bytes("GET", "/orders/messages?wait=60"))

        async def has_come() -> bool:
            return bool(tell)

        await eventually(has_come)
        getattr(writer.transport, leave)()
        await asyncio.sleep(0.05)
        tell[0]([], None)

        async def is_done() -> bool:
            return not (site.http.busy or site.store._receives.waiting)

        await eventually(is_done)
        if leave == "write_eof":
            assert (await parse_answer(reader, "GET")).status == 204
        await close(writer)


async def test_what_comes_behind_one_that_waits_is_answered_after_it(root: Path) -> None:
    async with site_on(root) as site:
        reader, writer = await site.connect()
        writer.write(request_bytes("GET", "/orders/messages?wait=20"))
        await parked(site.store, 1)
        writer.write(request_bytes("POST", "/orders/messages", b"second"))
        await asyncio.sleep(0.05)
        await site.ask("POST", "/orders/messages", b"first")

        answers = [await parse_answer(reader, method) for method in ("GET", "POST")]

        assert [(each.status, each.body) for each in answers] == [(200, b"first"), (201, b"")]
        await close(writer)


async def test_if_too_many_wait_the_next_one_is_told(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mq.store.receiving.waiting.MAX_WAITING_RECEIVES", 1)
    async with site_on(root) as site:
        first = asyncio.create_task(site.ask("GET", "/orders/messages?wait=20"))
        await parked(site.store, 1)
        answers = [await site.ask("GET", "/orders/messages?wait=20") for _ in range(3)]
        site.store.stop_waiting()

        assert [each.status for each in answers] == [503] * 3
        assert "too many requests wait" in answers[0].json()["detail"]
        assert (await first).status == 204
        assert not site.http.busy


async def test_those_that_wait_are_served_in_the_order_in_which_they_came(root: Path) -> None:
    """Two find a message, and the others must wait, all in one round."""
    async with site_on(root) as site:
        await site.ask("GET", "/orders/messages")
        connections = [await site.connect() for _ in range(6)]
        await site.ask("POST", "/orders/messages", b"0")
        await site.ask("POST", "/orders/messages", b"1")
        for _, writer in connections:
            writer.write(request_bytes("GET", "/orders/messages?wait=20"))
        await parked(site.store, 4)
        for number in range(2, 6):
            await site.ask("POST", "/orders/messages", b"%d" % number)

        answers = [await parse_answer(reader, "GET") for reader, _ in connections]
        assert [each.body for each in answers] == [b"%d" % number for number in range(6)]
        assert site.way.taken.count("GET") == 7
        assert not site.store._receives._tries
        for _, writer in connections:
            await close(writer)
