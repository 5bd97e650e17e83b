"""A receive that may wait, or says for how long its message is hidden, goes the quick way if a
message is there, and the usual way if it must wait for one."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.sites import BOTH, close, parse_answer, site_on
from tests.support.waiting import parked
from tests.support.wire import WireAnswer, request_bytes


@pytest.mark.parametrize("kind", BOTH)
async def test_a_receive_that_may_wait_goes_the_quick_way_if_a_message_is_there(
    root: Path, kind: str
) -> None:
    async with site_on(root, kind) as site:
        reader, writer = await site.connect()

        async def ask(method: str, query: str, body: bytes | None = None) -> WireAnswer:
            target = f"/orders/messages{query}"
            writer.write(request_bytes(method, target, body, **site.headers))
            return await parse_answer(reader, method)

        await ask("GET", "")  # From now on the server knows what is in the queue.
        published = [await ask("POST", "", b"body") for _ in range(3)]
        received = [await ask("GET", "?wait=20&visibility=50") for _ in published]

        ids = [[each.headers["x-message-id"] for each in some] for some in (published, received)]
        assert ids[0] == ids[1]
        assert [hidden_seconds(each) for each in received] == [50] * 3
        assert site.way.taken[4:] == ["GET"] * 3
        assert site.way.known >= 1
        await close(writer)


def hidden_seconds(answer: WireAnswer) -> float:
    """Return for how long a message that was just published is hidden."""
    visible, published = (
        datetime.fromisoformat(answer.headers[each]) for each in ("x-visible-at", "x-published-at")
    )
    return round((visible - published).total_seconds(), -1)


async def test_receives_of_one_round_hide_their_messages_as_long_as_each_says(root: Path) -> None:
    async with site_on(root) as site:
        for _ in range(6):
            await site.ask("POST", "/orders/messages", b"body")
        seconds = [30, 90, 30, 60, 90, 60]
        answers = await asyncio.gather(
            *[site.ask("GET", f"/orders/messages?visibility={each}") for each in seconds]
        )

        assert [hidden_seconds(each) for each in answers] == seconds
        assert len({each.headers["x-message-id"] for each in answers}) == 6


@pytest.mark.parametrize("number", [1, 3], ids=["parsed", "known"])
async def test_a_receive_that_finds_nothing_waits_the_usual_way(root: Path, number: int) -> None:
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
        assert site.way.taken.count("GET") == 3
        assert not site.way._quick._tries
        for _, writer in connections:
            await close(writer)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("wait=-1", 400),
        ("wait=61", 400),
        ("wait=", 400),
        ("wait=1&wait=1", 400),
        ("visibility=0", 400),
        ("visibility=x", 400),
        ("Wait=1", 400),
        ("wait=1&max=0", 400),
        ("wait=0", 204),
        ("wait=0&visibility=5", 204),
        ("visibility=5", 204),
    ],
)
async def test_what_is_wrong_with_a_wait_is_said_the_usual_way(
    root: Path, query: str, status: int
) -> None:
    async with site_on(root) as site:
        answer = await site.ask("GET", f"/orders/messages?{query}")

        assert answer.status == status
        assert site.way.taken == ["GET" if status == 204 else "get"]


async def test_a_large_message_is_received_once_by_one_who_may_wait(root: Path) -> None:
    async with site_on(root) as site:
        body = bytes(range(256)) * 1000
        await site.ask("GET", "/orders/messages")
        await site.ask("POST", "/orders/messages", body)

        received = await site.ask("GET", "/orders/messages?wait=1&visibility=50")

        assert (received.body, received.headers["x-receive-count"]) == (body, "1")
        assert (await site.ask("GET", "/orders/messages")).status == 204
        assert site.way.taken == ["GET", "post", "GET", "GET"]
