"""Requests whose heads are known are not parsed, and nobody can tell from the answers."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.sites import BOTH, Site, close, parse_answer, site_on
from tests.support.wire import request_bytes

ID = "01a205be-67fe-77cc-b5ba-b6aa66959255"
LEASE = '"6da76b1b0281345a"'
PUBLISH = request_bytes("POST", "/orders/messages", b"body", content_type="text/plain")
RECEIVE = request_bytes("GET", "/orders/messages")
REMOVAL = request_bytes("DELETE", f"/orders/messages/{ID}", if_match=LEASE)


@pytest.mark.parametrize("kind", BOTH)
async def test_what_came_before_is_not_parsed_again(root: Path, kind: str) -> None:
    async with site_on(root, kind) as site:
        reader, writer = await site.connect()
        known = []
        for _ in range(4):
            assert await cycle(site, reader, writer) == [201, 200, 202]
            known.append(site.way.known)
        await close(writer)

        # A server that speaks TLS may still be sending its tickets when the first request comes.
        assert known[:2] == [0, 0]
        assert known[3] - known[2] == 3


async def test_a_new_connection_may_begin_with_a_known_head(root: Path) -> None:
    async with site_on(root) as site:
        for known in 0, 0, 1, 2:
            await site.ask("GET", "/orders/messages")
            assert site.way.known == known


async def cycle(
    site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> list[int]:
    statuses = []
    target, headers = "/orders/messages", dict(site.headers)
    for method in "POST", "GET", "DELETE":
        body = b"body" if method == "POST" else None
        writer.write(request_bytes(method, target, body, **headers))
        answer = await parse_answer(reader, method)
        statuses.append(answer.status)
        if method == "GET":
            target += "/" + answer.headers["x-message-id"]
            headers["if_match"] = answer.headers["etag"]
    return statuses


async def test_a_known_head_is_checked_against_the_tokens_of_now(root: Path) -> None:
    async with site_on(root, "token") as site:
        answers = [await site.ask("GET", "/orders/messages") for _ in range(3)]
        known, tokens = site.way.known, site.way._quick._tokens
        assert [each.status for each in answers] == [204] * 3
        assert tokens is not None
        tokens.replace(())

        refused = await site.ask("GET", "/orders/messages")

        assert (refused.status, site.way.known) == (401, known)


async def test_what_the_usual_way_must_answer_is_parsed_then(root: Path) -> None:
    async with site_on(root) as site:
        gone = [
            await site.ask("DELETE", f"/orders/messages/{ID}", if_match=LEASE) for _ in range(4)
        ]
        assert site.way.known > 0
        lost = [await site.ask("POST", "/nowhere/messages", b"body") for _ in range(4)]

        assert {(each.status, each.headers["content-type"], each.body) for each in gone} == {
            (404, "application/problem+json", gone[0].body)
        }
        assert {(each.status, each.body) for each in lost} == {(404, lost[0].body)}


SEQUENCE = (
    PUBLISH,
    PUBLISH,
    RECEIVE,
    RECEIVE,
    RECEIVE,
    REMOVAL,
    REMOVAL.replace(b"-b5ba-", b"-b5bb-"),
)


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.sampled_from(SEQUENCE), min_size=4, max_size=12), st.data())
def test_however_requests_are_cut_they_are_answered_alike(
    tmp_path_factory: pytest.TempPathFactory, requests: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(requests)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
    whole = [len(b"".join(requests[:number])) for number in range(len(requests))]
    places = sorted({0, len(stream), *cuts, *data.draw(st.sets(st.sampled_from(whole)))})
    pieces = [stream[start:end] for start, end in pairwise(places)]

    async def run() -> tuple[list[int], list[int]]:
        async with site_on(tmp_path_factory.mktemp("known") / "root") as site:
            for each in SEQUENCE * 2:
                await exchange(site, [each], 1)
            learned = site.way.known
            cut = await exchange(site, pieces, len(requests))
            assert site.way.known >= learned
            return cut, await exchange(site, requests, len(requests))

    in_pieces, one_by_one = asyncio.run(run())
    kinds = [request[:1] for request in requests]
    for status, kind in zip(in_pieces, kinds, strict=True):
        assert status in {b"P": (201,), b"G": (200, 204), b"D": (404,)}[kind], in_pieces
    assert len(one_by_one) == len(in_pieces)


async def exchange(site: Site, pieces: list[bytes], number: int) -> list[int]:
    """Send pieces, each when the ones before have been read, and return the statuses."""
    reader, writer = await site.connect()
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0.001)
    statuses = [(await parse_answer(reader, "GET")).status for _ in range(number)]
    await close(writer)
    return statuses
