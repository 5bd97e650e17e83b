"""The three most frequent requests are answered the quick way; all else goes on to the usual one,
and nobody can tell from the answers which way it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.batches import outcomes_in
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.sites import BOTH, close, parse_answer, site_on
from tests.support.stores import eventually
from tests.support.wire import WireAnswer, request_bytes

UNREAD_BYTES = 20_000_000
"""More than the system keeps for a client that does not read."""


@pytest.mark.parametrize("kind", BOTH)
async def test_publish_receive_and_remove_go_the_quick_way(root: Path, kind: str) -> None:
    async with site_on(root, kind) as site:
        reader, writer = await site.connect()

        async def ask(
            method: str, target: str, body: bytes | None = None, /, **more: str
        ) -> WireAnswer:
            writer.write(request_bytes(method, target, body, **site.headers, **more))
            return await parse_answer(reader, method)

        published = await ask("POST", "/orders/messages", b"body", content_type="text/plain")
        received = await ask("GET", "/orders/messages")
        message_id = received.headers["x-message-id"]
        lease = received.headers["etag"]
        removed = await ask("DELETE", f"/orders/messages/{message_id}", if_match=lease)
        empty = await ask("GET", "/orders/messages")

        assert [each.status for each in (published, received, removed, empty)] == [
            201, 200, 202, 204,
        ]  # fmt: skip
        assert (received.body, received.headers["content-type"]) == (b"body", "text/plain")
        # A server that speaks TLS may still be sending its tickets when the first request comes.
        first = {"post", "POST"} if kind == "tls" else {"POST"}
        assert site.way.taken[0] in first
        assert site.way.taken[1:] == ["GET", "DELETE", "GET"]
        await close(writer)


@pytest.mark.parametrize("comma", [",", "%2C"], ids=["quick", "usual"])
async def test_several_removals_in_one_request_are_answered_alike(root: Path, comma: str) -> None:
    async with site_on(root) as site:
        for _ in range(4):
            await site.ask("POST", "/orders/messages", b"body")
        received = [await site.ask("GET", "/orders/messages") for _ in range(4)]
        ids = [each.headers["x-message-id"] for each in received]
        leases = [each.headers["etag"] for each in received]

        async def remove(ids: list[str], leases: list[str]) -> WireAnswer:
            target = f"/orders/messages/{comma.join(ids)}"
            return await site.ask("DELETE", target, if_match=", ".join(leases))

        answers = [
            await remove(ids[:2], leases[:2]),
            await remove(["never", *ids], leases[:3]),
            await remove([ids[3], "a:b"], leases),
            await remove(ids, leases),
        ]

        assert [(each.status, each.body != b"") for each in answers[::3]] == [(202, False)] * 2
        statuses = [each["status"] for each in outcomes_in(answers[1])]
        assert statuses == [404, 202, 202, 202, 412]
        assert answers[2].status == 400
        method = "DELETE" if comma == "," else "delete"
        assert site.way.taken[8:] == [method, method, "delete", method]


UNUSUAL: dict[str, tuple[str, bytes | None, dict[str, str], int]] = {
    "an own id that is none": ("POST", b"body", {"x_message_id": "own_id"}, 400),
    "a large body": ("POST", b"x" * 131_073, {}, 201),
    "an expectation": ("POST", b"body", {"expect": "100-continue"}, 100),
    "the last one": ("POST", b"body", {"connection": "close"}, 201),
    "a bad type": ("POST", b"body", {"content_type": "a" * 300}, 400),
    "another site's page": ("POST", b"body", {"origin": "http://other.example"}, 403),
    "a body where none belongs": ("GET", b"body", {}, 204),
    "another method": ("PUT", None, {}, 405),
}


@pytest.mark.parametrize("what", UNUSUAL)
async def test_what_is_unusual_goes_the_usual_way(root: Path, what: str) -> None:
    method, body, headers, status = UNUSUAL[what]
    async with site_on(root) as site:
        answer = await site.ask(method, "/orders/messages", body, **headers)

        assert (answer.status, site.way.taken) == (status, [method.lower()])


@pytest.mark.parametrize(
    "target",
    [
        "/orders/messages?max=1&peek",
        "/orders/messages?max=1&then=l%61te",
        "/orders/messages?also=late",
        "/orders",
        "/or%64ers/messages",
        "/",
    ],
)
async def test_other_paths_and_parameters_go_the_usual_way(root: Path, target: str) -> None:
    async with site_on(root) as site:
        await site.ask("GET", target)

        assert site.way.taken == ["get"]


@pytest.mark.parametrize("number", [1, 3], ids=["parsed", "known"])
async def test_a_client_that_has_not_read_its_answers_goes_the_usual_way(
    root: Path, number: int
) -> None:
    """There an answer waits for its client, and no more is read: otherwise they would pile up."""
    async with site_on(root) as site:
        reader, writer = await site.connect()
        request = request_bytes("POST", "/orders/messages", b"body")
        for _ in range(number):
            writer.write(request)
            await parse_answer(reader, "POST")
        connection: Any = site.http.connections[0]
        connection.own_transport.write(b"x" * UNREAD_BYTES)
        writer.write(request)

        async def has_come() -> bool:
            return len(site.way.taken) == number + 1

        await eventually(has_come)
        await reader.readexactly(UNREAD_BYTES)
        assert (await parse_answer(reader, "POST")).status == 201
        assert site.way.taken[number] == "post"
        await close(writer)


async def test_a_token_that_may_not_is_refused_as_ever(root: Path) -> None:
    async with site_on(root, "token") as site:
        site.headers["Authorization"] = "Bearer " + "x" * 22

        assert (await site.ask("GET", "/orders/messages")).status == 401
        assert site.way.taken == ["get"]


# Nobody can tell


async def test_both_ways_answer_alike(root: Path) -> None:
    """A parameter that changes nothing, or an escape, makes a request go the usual way."""
    async with site_on(root) as site:
        answers = []
        for way in ("", "?delay=%30"):
            answers.append(await site.ask("POST", f"/orders/messages{way}", b"body"))
        for way in ("", "?wait=%30"):
            answers.append(await site.ask("GET", f"/orders/messages{way}"))
        for way in ("", "?wait=%30"):
            answers.append(await site.ask("GET", f"/orders/messages{way}"))

        for quick, usual in zip(answers[::2], answers[1::2], strict=True):
            assert (quick.status, quick.body, list(quick.headers)) == (
                usual.status,
                usual.body,
                list(usual.headers),
            )
        assert site.way.taken == ["POST", "post", "GET", "get", "GET", "get"]


async def test_an_error_is_worded_the_usual_way_and_nothing_is_done_twice(
    disk: Path,
) -> None:
    files = WatchedFiles()
    async with site_on(disk, files=files) as site:
        missing = await site.ask("DELETE", "/orders/messages/no-such-message")
        files.fail(*SYNCS)
        refused = await site.ask("POST", "/orders/messages", b"body")

        assert (missing.status, missing.json()["type"]) == (404, "urn:mq:problem:message-not-found")
        assert refused.status == 503
        assert "could not be synced" in refused.json()["detail"]
        assert site.way.taken == ["DELETE", "POST"]

        async def is_served() -> bool:
            return (await site.ask("GET", "/orders/messages")).status == 204

        await eventually(is_served)


async def test_a_large_message_is_received_once_and_whole(root: Path) -> None:
    async with site_on(root) as site:
        body = bytes(range(256)) * 1000
        await site.ask("POST", "/orders/messages", body)

        received = await site.ask("GET", "/orders/messages")

        assert (received.body, received.headers["x-receive-count"]) == (body, "1")
        assert site.way.taken == ["post", "GET"]


async def test_a_damaged_large_message_is_passed_over(root: Path) -> None:
    async with site_on(root) as site:
        damaged = await site.ask("POST", "/orders/messages", b"x" * 600_000)
        whole = await site.ask("POST", "/orders/messages", b"whole")
        path = root / "queues" / "orders" / damaged.headers["x-message-id"]
        path.write_bytes(b"y" * 600_000)

        received = await site.ask("GET", "/orders/messages")

        assert received.headers["x-message-id"] == whole.headers["x-message-id"]
        assert [each.name for each in (root / "corrupt").iterdir()]
