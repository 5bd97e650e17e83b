"""Requests on the quick way beside others on a connection: in order, behind each other, cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from structlog.testing import capture_logs

from mq.commit.operation import Submitted
from mq.errors import MessageNotFound, StoreUnavailable
from mq.store.store import Store
from mq.web import api
from mq.web.answers import lines_of
from mq.web.connections import quick_connection
from mq.web.endpoints import receiving
from mq.web.routes import MESSAGE_PATH, QUEUE_PATH
from tests.support.sites import BOTH, close, parse_answer, site_on
from tests.support.stores import ORDERS, eventually
from tests.support.wire import request_bytes


async def test_what_is_pipelined_is_answered_in_order(root: Path) -> None:
    async with site_on(root) as site:
        reader, writer = await site.connect()
        requests = [
            request_bytes("POST", "/orders/messages", b"1"),
            request_bytes("GET", "/orders"),
            request_bytes("GET", "/orders/messages"),
            request_bytes("POST", "/nowhere/messages", b"2"),
            request_bytes("GET", "/orders/messages"),
        ]
        for request in requests:
            writer.write(request)
            await asyncio.sleep(0)  # in pieces, as they come
        writer.write(b"".join(requests))

        statuses = [(await parse_answer(reader, "GET")).status for _ in range(10)]

        assert statuses == [201, 200, 200, 404, 204] * 2
        await close(writer)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(("number", "size"), [(300, 1000), (20, 60_000)], ids=["many", "large"])
async def test_what_comes_behind_a_request_under_way_waits_and_is_not_read_without_end(
    disk: Path, monkeypatch: pytest.MonkeyPatch, kind: str, number: int, size: int
) -> None:
    async with site_on(disk, kind) as site:
        held = _Held(site.store, monkeypatch)
        reader, writer = await site.connect()
        one = request_bytes("POST", "/orders/messages", b"x" * size, **site.headers)
        writer.write(one)
        await held.until(1)
        writer.write(one * number)

        async def is_paused() -> bool:
            connection: Any = site.http.connections[0]
            return bool(connection._buffer_paused)

        await eventually(is_paused)
        held.let_go()

        statuses = [(await parse_answer(reader, "POST")).status for _ in range(1 + number)]
        assert statuses == [201] * (1 + number)
        await close(writer)


class _Held:
    """Operations stay where they are until the test lets them go."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.done: list[Any] = []
        submit = store._committer.submit

        def hold(submitted: Submitted) -> None:
            self.waiting.append(lambda: submit(submitted))
            self.done.append(submitted.done)

        monkeypatch.setattr(store._committer, "submit", hold)
        self._undo = monkeypatch.undo

    async def until(self, number: int) -> None:
        async def is_held() -> bool:
            return len(self.waiting) == number

        await eventually(is_held)

    def let_go(self) -> None:
        self._undo()
        for go_on in self.waiting:
            go_on()


async def test_a_request_that_is_handed_over_took_as_long_as_both_ways(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site_on(root) as site:
        found = site.way._quick.durations.found
        held = _Held(site.store, monkeypatch)
        asked = asyncio.ensure_future(site.ask("DELETE", "/orders/messages/absent"))
        await held.until(1)
        with pytest.MonkeyPatch.context() as later:
            for module in (api, quick_connection):
                later.setattr(module, "perf_counter", lambda: perf_counter() + 1000)
            held.let_go()

            assert (await asked).status == 404
            assert (await site.ask("GET", "/orders")).status == 200
        assert found[MESSAGE_PATH, "DELETE", 404].total > 1000
        assert found[QUEUE_PATH, "GET", 200].total < 1000


@pytest.mark.parametrize("query", ["", "?max=2"])
async def test_a_client_that_left_before_its_answer_never_got_the_message(
    root: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    async with site_on(root) as site:
        await site.ask("POST", "/orders/messages", b"body")
        held = _Held(site.store, monkeypatch)
        _, writer = await site.connect()
        writer.write(request_bytes("GET", f"/orders/messages{query}"))
        await held.until(1)
        writer.transport.abort()
        held.let_go()

        async def is_ready() -> bool:
            return (await site.store.describe_queue(ORDERS)).ready == 1

        await eventually(is_ready)
        received = await site.ask("GET", "/orders/messages")
        assert received.body == b"body"


@pytest.mark.parametrize("error", [None, MessageNotFound("it is gone")])
async def test_nobody_is_woken_for_a_client_that_is_leaving(
    root: Path, monkeypatch: pytest.MonkeyPatch, error: MessageNotFound | None
) -> None:
    """aiohttp's task would find its request handler gone."""
    async with site_on(root) as site:
        held = _Held(site.store, monkeypatch)
        _, writer = await site.connect()
        request = request_bytes("DELETE", "/orders/messages/no-such-message")
        writer.write(request)
        await held.until(1)
        writer.write(request)  # waits behind it
        connection: Any = site.http.connections[0]

        async def is_behind() -> bool:
            return len(connection._behind) == 1

        await eventually(is_behind)
        task = connection._task_handler
        connection.own_transport.abort()
        held.done[0](None, error)

        async def has_ended() -> bool:
            return bool(task.done())

        await eventually(has_ended)
        assert task.cancelled() or task.exception() is None
        writer.close()


@pytest.mark.parametrize("request_", [("POST", "", 201), ("GET", "", 200), ("GET", "?max=2", 200)])
async def test_a_client_that_closed_its_own_direction_is_answered(
    root: Path, monkeypatch: pytest.MonkeyPatch, request_: tuple[str, str, int]
) -> None:
    method, query, status = request_
    body = b"body" if method == "POST" else None
    async with site_on(root) as site:
        await site.ask("POST", "/orders/messages", b"there")
        held = _Held(site.store, monkeypatch)
        reader, writer = await site.connect()
        writer.write(request_bytes(method, f"/orders/messages{query}", body))
        await held.until(1)
        writer.write_eof()
        await asyncio.sleep(0.05)  # let the end be seen before the answer
        held.let_go()

        assert (await parse_answer(reader, method)).status == status
        assert await reader.read() == b""
        await close(writer)


async def test_a_unix_client_that_reads_its_answer_and_closes_has_the_message(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site_on(root, "unix") as site:
        await site.ask("POST", "/orders/messages", b"body")
        held = _Held(site.store, monkeypatch)
        reader, writer = await site.connect()
        writer.write(request_bytes("GET", "/orders/messages"))
        await held.until(1)
        writer.write_eof()
        held.let_go()
        assert (await parse_answer(reader, "GET")).body == b"body"
        await close(writer)
        await site.http.drain(10)

        described = await site.store.describe_queue(ORDERS)
        assert (described.ready, described.leased) == (0, 1)


async def test_an_answer_that_cannot_be_written_is_500_and_its_message_is_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site_on(root) as site:
        await site.ask("GET", "/orders/messages")  # the queue is listed
        await site.ask("POST", "/orders/messages", b"body")
        monkeypatch.setattr(receiving, "head_of", lambda _, **__: lines_of({"X-Broken": "a\nb"}))

        with capture_logs():
            assert (await site.ask("GET", "/orders/messages")).status == 500
        monkeypatch.undo()

        async def is_received() -> bool:
            return (await site.ask("GET", "/orders/messages")).body == b"body"

        await eventually(is_received)


async def test_draining_answers_what_is_under_way_and_says_it_is_the_last(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site_on(root) as site:
        held = _Held(site.store, monkeypatch)
        reader, writer = await site.connect()
        writer.write(request_bytes("POST", "/orders/messages", b"body"))
        await held.until(1)
        draining = asyncio.create_task(site.http.drain(10))
        await asyncio.sleep(0)
        held.let_go()
        answer = await parse_answer(reader, "POST")
        await draining

        assert (answer.status, answer.headers["connection"]) == (201, "close")
        assert await reader.read() == b""
        await close(writer)


async def test_draining_waits_for_a_request_whose_handler_has_not_run_yet(root: Path) -> None:
    """It was read and parsed in the same turn of the event loop in which the draining began."""
    async with site_on(root) as site:
        reader, writer = await site.connect()
        usual = request_bytes("GET", "/orders/messages?wait=0.2")
        writer.write(usual)
        await parse_answer(reader, "GET")
        [connection] = site.http.connections
        await asyncio.sleep(0.01)  # aiohttp's task waits for the next one

        connection.data_received(usual)
        await site.http.drain(10)
        await site.http.shutdown(0.01)

        answer = await parse_answer(reader, "GET")
        assert (answer.status, answer.headers["connection"]) == (204, "close")
        await close(writer)


async def test_what_is_handed_over_to_nobody_is_given_back(root: Path) -> None:
    async with site_on(root) as site:
        await site.ask("POST", "/orders/messages", b"x" * 600_000)
        received = await site.store.receive(ORDERS, 100)
        assert received is not None
        reader, writer = await site.connect()
        writer.write(request_bytes("GET", "/orders"))
        await parse_answer(reader, "GET")
        connection: Any = site.http.connections[0]
        connection._handed_over = [received]

        writer.transport.abort()

        async def is_ready() -> bool:
            return (await site.store.describe_queue(ORDERS)).ready == 1

        await eventually(is_ready)
        assert site.way.taken[-1] == "drop"


async def test_an_overloaded_disk_is_answered_the_usual_way(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site_on(root) as site:

        def refuse(submitted: Submitted) -> None:
            error = StoreUnavailable("too many")
            asyncio.get_running_loop().call_soon(submitted.done, None, error)

        monkeypatch.setattr(site.store._committer, "submit", refuse)
        answer = await site.ask("POST", "/orders/messages", b"body")
        monkeypatch.undo()

        assert (answer.status, answer.json()["detail"]) == (503, "too many")
