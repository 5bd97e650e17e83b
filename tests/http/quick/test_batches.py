"""A batch that is here as a whole goes the quick way; what is wrong with one is found the usual
way, as ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mq.names import QueueName
from tests.support.batches import NDJSON, answer_lines, lines_of
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.sites import BOTH, Site, close, parse_answer, site_on
from tests.support.stores import eventually
from tests.support.wire import WireAnswer, request_bytes


def batch(*lines: dict[str, Any]) -> bytes:
    return "".join(f"{json.dumps(each)}\n" for each in lines).encode()


async def send(site: Site, query: str, body: bytes, **headers: str) -> WireAnswer:
    headers.setdefault("content_type", NDJSON)
    return await site.ask("POST", f"/orders/messages?{query}", body, **headers)


@pytest.mark.parametrize("kind", BOTH)
async def test_a_batch_goes_the_quick_way(root: Path, kind: str) -> None:
    two = batch(
        {"body": "a", "content_type": "text/plain"}, {"body": "b", "properties": {"x-meta-c": "d"}}
    )
    async with site_on(root, kind) as site:
        reader, writer = await site.connect()
        answers = []
        for _ in range(4):  # The last one's head is known.
            target = "/orders/messages?batch"
            more = site.headers | {"Content-Type": NDJSON}
            writer.write(request_bytes("POST", target, two, **more))
            answers.append(await parse_answer(reader, "POST"))
        await close(writer)

        ids = [each["id"] for answer in answers for each in answer_lines(answer)]
        assert [each.status for each in answers] == [201] * 4
        received = [await site.ask("GET", "/orders/messages") for _ in range(8)]
        assert [each.headers["x-message-id"] for each in received] == ids
        assert [each.body for each in received] == [b"a", b"b"] * 4
        assert [each.headers.get("x-meta-c") for each in received] == [None, "d"] * 4
        assert site.way.taken[1:4] == ["POST"] * 3
        assert site.way.known >= 1


@pytest.mark.parametrize("query", ["batch&also=bills", "also=bills&batch&also=orders"])
async def test_a_batch_for_several_queues_goes_the_quick_way(root: Path, query: str) -> None:
    async with site_on(root) as site:
        await site.ask("PUT", "/bills")
        answer = await send(site, query, batch({"body": "a"}, {"body": "b"}))

        ids = [each["id"] for each in answer_lines(answer)]
        for queue in ("orders", "bills"):
            received = await site.ask("GET", f"/{queue}/messages?max=9")
            assert [each["id"] for each in lines_of(received)] == ids
        assert site.way.taken[1] == "POST"


async def test_both_ways_answer_alike(root: Path) -> None:
    lines = batch({"body": "a", "id": "one"}, {"body": "b", "delay": 60})
    async with site_on(root) as site:
        quick = await send(site, "batch", lines)
        again = await send(site, "batch", lines.partition(b"\n")[0])
        usual = await send(site, "b%61tch", lines.replace(b"one", b"two"))

        assert (again.status, answer_lines(again)) == (200, [{"id": "one", "duplicate": True}])
        assert (quick.status, list(quick.headers)) == (usual.status, list(usual.headers))
        quick_lines, usual_lines = answer_lines(quick), answer_lines(usual)
        assert [list(each) for each in quick_lines] == [list(each) for each in usual_lines]
        assert [each["id"] for each in (quick_lines[0], usual_lines[0])] == ["one", "two"]
        assert site.way.taken == ["POST", "POST", "post"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "the batch is empty"),
        (batch({"body": "a"}) + b"{", 400, "line 2"),
        (batch({"body": "a"}, {"body": "x" * 101}), 413, "line 2"),
        (batch({"body": "a"}, {"body": "b", "queue": "missing"}), 404, "missing"),
    ],
)
async def test_what_is_wrong_with_a_batch_is_said_as_ever(
    root: Path, body: bytes, status: int, said: str
) -> None:
    async with site_on(root, max_body_bytes=100) as site:
        reader, writer = await site.connect()
        for _ in range(4):  # The head is known in the end.
            writer.write(request_bytes("POST", "/orders/messages?batch", body, content_type=NDJSON))
            refused = await parse_answer(reader, "POST")

            assert refused.status == status
            assert said in refused.json()["detail"]
        good = await send(site, "batch", batch({"body": "a"}))
        await close(writer)

        assert good.status == 201
        received = await site.ask("GET", "/orders/messages?max=9")
        assert [each["id"] for each in lines_of(received)] == [answer_lines(good)[0]["id"]]


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("batch", {"content_type": "application/json"}, 415),
        ("batch", {"x_message_id": "one"}, 400),
        ("batch", {"x_meta_a": "b"}, 400),
        ("batch=yes", {}, 400),
        ("batch&batch", {}, 400),
        ("batch&delay=1", {}, 400),
        ("batch&removes=bills/one", {}, 400),
        ("batch&also=missing", {}, 404),
        ("batch&also=", {}, 400),
    ],
)
async def test_what_a_batch_may_not_ask_for_is_refused(
    root: Path, query: str, headers: dict[str, str], status: int
) -> None:
    async with site_on(root) as site:
        refused = await send(site, query, batch({"body": "a"}), **headers)

        assert refused.status == status
        assert (await site.ask("GET", "/orders/messages")).status == 204


async def test_a_large_batch_goes_the_usual_way(root: Path) -> None:
    async with site_on(root) as site:
        answer = await send(site, "batch", batch(*({"body": "x" * 7000} for _ in range(10))))

        assert (answer.status, site.way.taken) == (201, ["post"])


async def test_a_token_for_one_queue_publishes_lines_to_no_other(root: Path) -> None:
    async with site_on(root, "token") as site:
        await site.store.create_queue(QueueName("bills"))
        for query, line in (("batch&also=bills", {}), ("batch", {"queue": "bills"})):
            for _ in range(3):
                answer = await send(site, query, batch({"body": "a"} | line))

                assert answer.status == 403
        assert (await site.ask("GET", "/orders/messages")).status == 204


async def test_a_batch_that_could_not_be_synced_is_published_once_at_most(disk: Path) -> None:
    files = WatchedFiles()
    async with site_on(disk, files=files) as site:
        files.fail(*SYNCS)
        refused = await send(site, "batch", batch({"body": "a"}, {"body": "b"}))

        assert (refused.status, site.way.taken) == (503, ["POST"])
        assert "could not be synced" in refused.json()["detail"]
        received: list[bytes] = []

        async def is_served() -> bool:
            answer = await site.ask("GET", "/orders/messages")
            received.append(answer.body)
            return answer.status == 204

        await eventually(is_served)
        assert received.count(b"a") == received.count(b"b") <= 1
