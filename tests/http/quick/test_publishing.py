"""What a publish asks for besides its body goes the quick way too: an own id, a delay, other
queues, the removal of a message."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from mq.names import QueueName
from tests.support.messages import names_in
from tests.support.sites import BOTH, Site, close, parse_answer, site_on
from tests.support.stores import publish
from tests.support.wire import WireAnswer, request_bytes


@pytest.mark.parametrize("kind", BOTH)
async def test_a_publish_under_an_own_id_goes_the_quick_way(root: Path, kind: str) -> None:
    """Other ids come with heads that are known, and so does the same one again."""
    async with site_on(root, kind) as site:
        reader, writer = await site.connect()

        async def publish(message_id: str, body: bytes = b"body") -> WireAnswer:
            more = site.headers | {"X-Message-Id": message_id}
            writer.write(request_bytes("POST", "/orders/messages", body, **more))
            return await parse_answer(reader, "POST")

        ids = ["first", "second", "third", "4", "4", "4", "x" * 64]
        bodies = [b"body"] * 5 + [b"ybod", b"body"]
        told = [await publish(*each) for each in zip(ids, bodies, strict=True)]
        await close(writer)

        assert [each.status for each in told] == [201, 201, 201, 201, 200, 409, 201]
        assert [told[at].headers["x-message-id"] for at in (0, 1, 2, 3, 4, 6)] == [
            *ids[:5], ids[6],
        ]  # fmt: skip
        received = [await site.ask("GET", "/orders/messages") for _ in range(6)]
        assert [each.headers.get("x-message-id") for each in received] == [
            *ids[:4], ids[6], None,
        ]  # fmt: skip
        assert site.way.taken[1:7] == ["POST"] * 6
        assert site.way.known >= 3


@pytest.mark.parametrize("query", ["also=bills", "also=bills&also=orders"])
async def test_a_publish_to_several_queues_goes_the_quick_way(root: Path, query: str) -> None:
    async with site_on(root) as site:
        await site.ask("PUT", "/bills")
        target = f"/orders/messages?{query}"
        answers = [
            await site.ask("POST", target, b"two coffees", content_type="text/plain", x_meta_a="1")
            for _ in range(3)  # The third one's head is known.
        ]

        ids = [each.headers["x-message-id"] for each in answers]
        assert [each.status for each in answers] == [201] * 3
        for queue in ("orders", "bills"):
            received = [await site.ask("GET", f"/{queue}/messages") for _ in ids]
            assert [each.headers["x-message-id"] for each in received] == ids
            assert {each.body for each in received} == {b"two coffees"}
            assert {each.headers["x-meta-a"] for each in received} == {"1"}
        assert site.way.taken == ["put", *["POST"] * 3, *["GET"] * 6]


@pytest.mark.parametrize("own_ids", [(), ("one", "two", "three", "four")], ids=["none", "own"])
async def test_a_delayed_publish_goes_the_quick_way(root: Path, own_ids: tuple[str, ...]) -> None:
    async with site_on(root) as site:
        headers = [{"x_message_id": each} for each in own_ids] or [{}] * 4
        before = datetime.now(UTC)
        answers = [
            await site.ask("POST", "/orders/messages?delay=60.5", b"later", **each)
            for each in headers  # The third one's head is known.
        ]

        assert [each.status for each in answers] == [201] * 4
        ids = [each.headers["x-message-id"] for each in answers]
        assert set(own_ids) <= set(ids)
        for answer in answers:
            hidden = datetime.fromisoformat(answer.headers["x-visible-at"]) - before
            assert 60 < hidden.total_seconds() < 120
        assert set(names_in(root / "delay")) == {f"orders:{each}" for each in ids}
        assert (await site.ask("GET", "/orders/messages")).status == 204
        assert site.way.taken == [*["POST"] * 4, "GET"]


async def test_one_that_asks_for_no_delay_is_there_at_once(root: Path) -> None:
    """Though its queue delays all others."""
    async with site_on(root) as site:
        await site.ask("PUT", "/orders?delay=60")
        at_once = await site.ask("POST", "/orders/messages?delay=0", b"now")
        later = await site.ask("POST", "/orders/messages", b"later")

        assert "x-visible-at" not in at_once.headers
        assert "x-visible-at" in later.headers
        assert (await site.ask("GET", "/orders/messages")).body == b"now"
        assert site.way.taken == ["put", "POST", "POST", "GET"]


async def test_a_delayed_publish_to_several_queues_goes_the_quick_way(root: Path) -> None:
    async with site_on(root) as site:
        await site.ask("PUT", "/bills")
        answer = await site.ask("POST", "/orders/messages?also=bills&delay=60", b"later")

        message_id = answer.headers["x-message-id"]
        assert set(names_in(root / "delay")) == {f"orders:{message_id}", f"bills:{message_id}"}
        assert site.way.taken == ["put", "POST"]


@pytest.mark.parametrize("query", ["delay=-1", "delay=1e3", "delay=31536001", "delay=", "delay"])
async def test_a_delay_that_is_none_is_refused_the_usual_way(root: Path, query: str) -> None:
    async with site_on(root) as site:
        answer = await site.ask("POST", f"/orders/messages?{query}", b"later")

        assert (answer.status, site.way.taken) == (400, ["post"])
        assert b"give seconds, 0 to 31536000" in answer.body


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("also=bills,missing", 404),
        ("also=bills,-", 400),
        ("also=bills&delay=%30", 201),
        ("also=b%69lls", 201),
        ("also=", 400),
        ("also=,", 400),
    ],
)
async def test_other_publishes_to_several_queues_end_the_usual_way(
    root: Path, query: str, status: int
) -> None:
    async with site_on(root) as site:
        await site.ask("PUT", "/bills")
        answer = await site.ask("POST", f"/orders/messages?{query}", b"body")

        assert answer.status == status
        assert (await site.ask("GET", "/bills/messages")).status == (200 if status == 201 else 204)


async def test_a_token_for_one_queue_publishes_to_no_other(root: Path) -> None:
    async with site_on(root, "token") as site:
        await site.store.create_queue(QueueName("bills"))
        target = "/orders/messages?also=bills"
        answers = [await site.ask("POST", target, b"body") for _ in range(3)]

        assert [each.status for each in answers] == [403] * 3
        assert (await site.ask("GET", "/orders/messages")).status == 204


async def received_from(site: Site, queue: str = "orders") -> tuple[str, str]:
    """Publish and receive a message. Returns its path and its lease."""
    await site.ask("POST", f"/{queue}/messages", b"order")
    headers = (await site.ask("GET", f"/{queue}/messages")).headers
    return f"{queue}/{headers['x-message-id']}", headers["etag"]


def removed_in(root: Path) -> list[str]:
    """The messages in `remove`, where sets are too that were given up."""
    return [each for each in names_in(root / "remove") if not each.startswith("batch:")]


@pytest.mark.parametrize("more", ["", "&delay=60", "&also=bills"])
@pytest.mark.parametrize("own_id", [None, "bill-1"])
async def test_a_handover_goes_the_quick_way(root: Path, own_id: str | None, more: str) -> None:
    async with site_on(root) as site:
        await site.ask("PUT", "/bills")
        message, lease = await received_from(site)
        target = f"/orders/messages?removes={message}{more}"
        headers = {"if_match": lease} | ({"x_message_id": own_id} if own_id else {})

        answer = await site.ask("POST", target, b"bill", **headers)
        again = await site.ask("POST", target, b"bill", **headers)

        assert (answer.status, again.status) == (201, 200 if own_id else 404)
        message_id = answer.headers["x-message-id"]
        queues = ["orders", "bills"] if "also" in more else ["orders"]
        for queue in queues:
            received = await site.ask("GET", f"/{queue}/messages")
            is_hidden = "delay" in more
            assert received.status == (204 if is_hidden else 200)
            assert is_hidden or received.headers["x-message-id"] == message_id
        assert removed_in(root) == [message.replace("/", ":")]
        assert site.way.taken[3] == "POST"


@pytest.mark.parametrize(
    ("message", "lease", "status"),
    [
        ("orders/ID", '"00c0ffee00c0ffee"', 412),
        ("orders/never", "LEASE", 404),
        ("missing/ID", "LEASE", 404),
        ("orders/ID", None, 400),
        ("orders/ID", "*", 400),
        ("orders", "LEASE", 400),
        ("-/ID", "LEASE", 400),
    ],
)
async def test_a_handover_that_fails_changes_nothing(
    root: Path, message: str, lease: str | None, status: int
) -> None:
    async with site_on(root) as site:
        path, current = await received_from(site)
        message_id = path.partition("/")[2]
        asked = message.replace("ID", message_id)
        headers = {} if lease is None else {"if_match": lease.replace("LEASE", current)}

        answer = await site.ask("POST", f"/orders/messages?removes={asked}", b"bill", **headers)

        assert answer.status == status
        assert names_in(root / "queues" / "orders") == removed_in(root) == []
        assert names_in(root / "delay") == [f"orders:{message_id}"]


async def test_a_token_for_one_queue_removes_from_no_other(root: Path) -> None:
    async with site_on(root, "token") as site:
        bills = QueueName("bills")
        await site.store.create_queue(bills)
        await publish(site.store, b"bill", bills)
        received = await site.store.receive(bills, 60)
        assert received is not None
        target = f"/orders/messages?removes=bills/{received.message_id}"
        lease = f'"{received.lease:016x}"'
        answers = [await site.ask("POST", target, b"body", if_match=lease) for _ in range(3)]

        assert [each.status for each in answers] == [403] * 3
        assert names_in(root / "delay") == [f"bills:{received.message_id}"]
        assert (await site.ask("GET", "/orders/messages")).status == 204
