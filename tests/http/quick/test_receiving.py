"""A receive that may wait, says for how long its messages are hidden, or asks for several, goes the
quick way, whether a message is there or it must wait for one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mq.names import QueueName
from tests.support.batches import body_in, lines_of
from tests.support.sites import BOTH, close, parse_answer, site_on
from tests.support.waiting import parked
from tests.support.wire import WireAnswer, hidden_seconds, request_bytes


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


# Several messages


@pytest.mark.parametrize("kind", BOTH)
async def test_a_receive_of_several_goes_the_quick_way(root: Path, kind: str) -> None:
    async with site_on(root, kind) as site:
        reader, writer = await site.connect()

        async def ask(method: str, query: str, body: bytes | None = None) -> WireAnswer:
            target = f"/orders/messages{query}"
            writer.write(request_bytes(method, target, body, **site.headers, content_type="a/b"))
            return await parse_answer(reader, method)

        await ask("GET", "")
        bodies = [b"one", "zw\xf6lf".encode(), b"\xff", b"", b"five"]
        ids = [(await ask("POST", "", each)).headers["x-message-id"] for each in bodies]
        answers = [await ask("GET", "?max=2&wait=20&visibility=50") for _ in range(3)]
        await ask("GET", "?max=2")

        lines = [line for each in answers for line in lines_of(each)]
        assert [len(lines_of(each)) for each in answers] == [2, 2, 1]
        assert [(each["id"], body_in(each)) for each in lines] == [*zip(ids, bodies, strict=True)]
        assert {each["content_type"] for each in lines} == {"a/b"}
        assert site.way.taken[-4:] == ["GET"] * 4
        await close(writer)


async def test_both_ways_answer_alike_with_several(root: Path) -> None:
    async with site_on(root) as site:
        await site.ask("GET", "/orders/messages")
        answers: list[WireAnswer] = []
        for query in (
            "max=2",
            "m%61x=2",
            "max=2&wait=0",
            "max=2&th%65n=orders",
            "max=2",
            "m%61x=2",
        ):
            for body in ("caf\xe9", "") if len(answers) < 4 else ():
                await site.ask("POST", "/orders/messages", body.encode(), x_meta_a="1")
            answers.append(await site.ask("GET", f"/orders/messages?{query}"))

        quick, usual = answers[:2]
        assert (quick.status, list(quick.headers)) == (usual.status, list(usual.headers))
        members = [[[*each] for each in lines_of(answer)] for answer in (quick, usual)]
        assert members[0] == members[1]
        assert [each.status for each in answers] == [200, 200, 200, 200, 204, 204]
        taken = [each for each in site.way.taken if each != "POST"]
        assert taken == ["GET", "GET", "get", "GET", "get", "GET", "get"]


@pytest.mark.parametrize(
    ("sizes", "number"),
    [((70_000, 1, 1), 3), ((9, 600_000, 9), 3), ((600_000,), 1), ((1_000_000,) * 18, 16)],
    ids=["together too many", "one in a file", "alone in a file", "too many for an answer"],
)
async def test_large_messages_are_received_once_and_whole(
    root: Path, sizes: tuple[int, ...], number: int
) -> None:
    async with site_on(root) as site:
        await site.ask("GET", "/orders/messages")
        bodies = [os.urandom(each) for each in sizes]
        for each in bodies:
            await site.ask("POST", "/orders/messages", each)

        received = lines_of(await site.ask("GET", "/orders/messages?max=20&wait=1"))

        assert [body_in(each) for each in received] == bodies[:number]
        assert {each["receive_count"] for each in received} == {1}
        rest = await site.ask("GET", "/orders/messages?max=20")
        assert len(lines_of(rest) if rest.status == 200 else []) == len(sizes) - number
        assert site.way.taken[-2:] == ["GET", "GET"]


async def test_those_who_ask_for_several_leave_what_others_wait_for(root: Path) -> None:
    """One asks for all there is: the next one waits, and is served before those that come later."""
    async with site_on(root) as site:
        await site.ask("GET", "/orders/messages")
        for number in range(3):
            await site.ask("POST", "/orders/messages", b"%d" % number)
        connections = [await site.connect() for _ in range(3)]
        for _, writer in connections:
            writer.write(request_bytes("GET", "/orders/messages?max=3&wait=20"))
        await parked(site.store, 2)
        for number in (3, 4):
            await site.ask("POST", "/orders/messages", b"%d" % number)

        answers = [await parse_answer(reader, "GET") for reader, _ in connections]
        received = [[body_in(each) for each in lines_of(answer)] for answer in answers]
        assert received == [[b"0", b"1", b"2"], [b"3"], [b"4"]]
        assert "get" not in site.way.taken
        assert not site.store._receives._tries
        for _, writer in connections:
            await close(writer)


# From several queues


async def test_a_receive_from_several_queues_goes_the_quick_way(root: Path) -> None:
    async with site_on(root) as site:
        for queue in ("bills", "mails"):
            await site.ask("PUT", f"/{queue}")
        for queue in ("mails", "bills", "orders", "mails"):
            await site.ask("POST", f"/{queue}/messages", queue.encode())

        target = "/orders/messages?then=bills,mails"
        answers = [await site.ask("GET", target) for _ in range(5)]

        bodies = [b"orders", b"bills", b"mails", b"mails", b""]
        assert [each.body for each in answers] == bodies
        assert [each.headers.get("x-queue", "").encode() for each in answers] == bodies
        assert site.way.taken[6:] == ["GET"] * 5


@pytest.mark.parametrize("number", [3, 20])
@pytest.mark.parametrize("size", [1, 600_000])
async def test_several_from_one_of_several_queues_go_the_quick_way(
    root: Path, number: int, size: int
) -> None:
    async with site_on(root) as site:
        await site.ask("PUT", "/bills")
        body = b"b" * size
        for _ in range(3):
            await site.ask("POST", "/bills/messages", body)

        answer = await site.ask("GET", f"/orders/messages?max={number}&then=bills&wait=1")

        lines = lines_of(answer)
        assert [(each["queue"], body_in(each)) for each in lines] == [("bills", body)] * 3
        assert site.way.taken[-1] == "GET"


@pytest.mark.parametrize("queue", ["orders", "bills"])
async def test_who_waits_for_several_queues_is_told_of_each(root: Path, queue: str) -> None:
    async with site_on(root) as site:
        await site.ask("PUT", "/bills")
        reader, writer = await site.connect()
        writer.write(request_bytes("GET", "/orders/messages?then=bills&wait=20"))
        await parked(site.store, 1, QueueName("bills"))
        await site.ask("POST", f"/{queue}/messages", b"body")

        answer = await parse_answer(reader, "GET")
        assert (answer.body, answer.headers["x-queue"]) == (b"body", queue)
        assert site.way.taken[1] == "GET"
        assert not site.store._receives._tries
        await close(writer)


async def test_a_missing_queue_is_missed_once_it_is_looked_into(root: Path) -> None:
    async with site_on(root) as site:
        await site.ask("POST", "/orders/messages", b"body")
        answers = [
            await site.ask("GET", f"/orders/messages?then=bills{wait}")
            for wait in ("", "&wait=0.1", "&wait=0.1", "")
        ]

        assert [each.status for each in answers] == [200, 404, 404, 404]
        assert b"there is no queue bills" in answers[1].body


async def test_a_client_that_hangs_up_ends_no_connection_but_its_own(root: Path) -> None:
    async with site_on(root) as site:
        for _ in range(2):
            reader, writer = await site.connect()
            writer.write(request_bytes("GET", "/orders/messages?wait=20"))
            await parked(site.store, 1)
            writer.write_eof()
            answer = await parse_answer(reader, "GET")
            assert (answer.status, answer.headers["connection"]) == (204, "close")
            await close(writer)

        assert "connection" not in (await site.ask("GET", "/orders/messages")).headers
