"""A receive by id, a heartbeat and a release go the quick way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sites import site_on
from tests.support.wire import hidden_seconds


async def test_a_message_is_taken_prolonged_and_released_the_quick_way(root: Path) -> None:
    async with site_on(root) as site:
        published = await site.ask("POST", "/orders/messages", b"body")
        target = f"/orders/messages?id={published.headers['x-message-id']}"

        taken = await site.ask("GET", f"{target}&visibility=50")
        lease = taken.headers["etag"]
        prolonged = await site.ask("GET", f"{target}&visibility=90", if_match=lease)
        released = await site.ask("GET", f"{target}&visibility=0", if_match=lease)
        again = await site.ask("GET", "/orders/messages")

        assert [each.status for each in (taken, prolonged, released)] == [200, 200, 204]
        assert [hidden_seconds(each) for each in (taken, prolonged)] == [50, 90]
        assert (prolonged.headers["etag"], prolonged.body) == (lease, b"body")
        counts = [each.headers["x-receive-count"] for each in (taken, prolonged, again)]
        assert counts == ["1", "1", "2"]
        assert site.way.taken == ["POST", *["GET"] * 4]


@pytest.mark.parametrize(
    ("query", "lease", "status"),
    [
        ("id=ID&visibility=50", '"00c0ffee00c0ffee"', 412),
        ("id=ID&visibility=0", '"00c0ffee00c0ffee"', 412),
        ("id=ID", "*", 200),
        ("id=ID&visibility=0", "*", 204),
        ("id=never", None, 404),
        ("id=never&visibility=0", None, 404),
        ("id=a.b", None, 400),
        ("id=ID&visibility=-1", None, 400),
        ("id=ID&max=1", None, 400),
        ("id=ID&wait=1", None, 400),
        ("id=ID&then=orders", None, 400),
        ("id=ID", "lease", 400),
    ],
)
async def test_what_is_wrong_with_a_receive_by_id_is_said_the_usual_way(
    root: Path, query: str, lease: str | None, status: int
) -> None:
    async with site_on(root) as site:
        await site.ask("POST", "/orders/messages", b"body")
        received = await site.ask("GET", "/orders/messages")
        asked = query.replace("ID", received.headers["x-message-id"])
        headers = {} if lease is None else {"if_match": lease}

        answer = await site.ask("GET", f"/orders/messages?{asked}", **headers)

        assert (answer.status, answer.body != b"") == (status, status != 204)
        if status > 204:
            kept = await site.ask("GET", f"/orders/messages?peek&{asked.split('&')[0]}")
            assert kept.status == status or kept.headers["x-receive-count"] == "1"


@pytest.mark.parametrize("size", [1, 300_000])
async def test_a_large_message_is_taken_by_its_id_once(root: Path, size: int) -> None:
    async with site_on(root) as site:
        published = await site.ask("POST", "/orders/messages", b"b" * size)
        target = f"/orders/messages?id={published.headers['x-message-id']}"

        taken = await site.ask("GET", target)

        assert (taken.body, taken.headers["x-receive-count"]) == (b"b" * size, "1")
        assert site.way.taken[1] == "GET"
