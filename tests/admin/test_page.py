"""The page and what it stands on: the events, and the API behind `/api`."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import pytest

from mq.admin.live import MAX_VIEWERS, Live, Look
from mq.admin.page import PAGES
from tests.support.processes import Server, wait_until
from tests.support.token_files import make_token_file
from tests.support.wire import Wire, assert_problem, request_bytes

READER, WRITER = "reader-kT3vVt9xkq3mP2sYw8LrBg", "writer-8wYs2Pm3qkx9tVv3TkgBrL"


class Viewer:
    """A viewer, who watches `/events`."""

    def __init__(self, port: int, **headers: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket.sendall(request_bytes("GET", "/events", None, **headers))
        self._file = self.socket.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        while self._file.readline().strip():
            pass

    def next(self) -> tuple[str, Any]:
        """The next event: its kind, and what it says."""
        lines: list[str] = []
        while len(lines) < 2:
            # Chunks are framed by lines of their own.
            line = self._file.readline()
            assert line, "the stream ended"
            if line.startswith((b"event: ", b"data: ")):
                lines.append(line.decode().partition(": ")[2].rstrip("\n"))
        return lines[0], json.loads(lines[1])

    def is_over(self) -> bool:
        return not self._file.read().replace(b"0\r\n\r\n", b"").strip()

    def close(self) -> None:
        self._file.close()
        self.socket.close()


@pytest.fixture
def admin(start_server: Callable[..., Server]) -> Server:
    return start_server("--admin=127.0.0.1:0")


@pytest.fixture
def admin_wire(admin: Server) -> Iterator[Wire]:
    with closing(Wire(admin.admin_port)) as wire:
        yield wire


@pytest.fixture
def wire_of(admin: Server) -> Iterator[Wire]:
    with closing(Wire(admin.port)) as wire:
        assert wire.request("PUT", "/orders").status == 201
        yield wire


def test_each_file_of_the_page_comes_with_a_policy_that_lets_nothing_else_in(
    admin_wire: Wire,
) -> None:
    for path, page in PAGES.items():
        answer = admin_wire.request("GET", path)

        assert answer.status == 200
        assert answer.body == page.body
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_viewer_is_told_everything_and_then_what_changes(admin: Server, wire_of: Wire) -> None:
    with closing(Viewer(admin.admin_port)) as viewer:
        kind, whole = viewer.next()
        assert kind == "whole"
        assert whole["queues"] == {"orders": [0, 0, 0, None, 0, 0]}
        assert whole["about"]["may_write"] is False
        assert whole["trouble"] is None
        assert whole["paused"] == []

        wire_of.publish("orders")
        wire_of.request("PUT", "/invoices")
        changed: dict[str, Any] = {}
        while len(changed) < 2:
            kind, changes = viewer.next()
            assert kind == "changes"
            changed |= changes["queues"]

        assert changed["invoices"] == [0, 0, 0, None, 0, 0]
        assert changed["orders"][:3] == [1, 0, 0]
        assert changed["orders"][4:] == [1, 0]
        assert changes["totals"]["published"] == 1

        wire_of.request("PUT", "/orders?paused=true")
        while not changes["paused"]:
            _, changes = viewer.next()
        assert changes["paused"] == ["orders"]


def test_a_viewer_is_told_why_the_server_is_not_ready(start_server: Callable[..., Server]) -> None:
    server = start_server("--admin=127.0.0.1:0", f"--min-free={2**60}")
    with closing(Viewer(server.admin_port)) as viewer:
        for _ in range(2):
            assert "(--min-free)" in viewer.next()[1]["trouble"]


def test_a_viewer_hears_of_a_queue_that_is_gone(admin: Server, wire_of: Wire) -> None:
    with closing(Viewer(admin.admin_port)) as viewer:
        viewer.next()
        wire_of.request("DELETE", "/orders")

        gone: list[str] = []
        while not gone:
            gone = viewer.next()[1]["gone"]
        assert gone == ["orders"]


def test_viewers_who_come_later_see_the_same(admin: Server, wire_of: Wire) -> None:
    with closing(Viewer(admin.admin_port)) as first:
        first.next()
        with closing(Viewer(admin.admin_port)) as second:
            assert second.next()[0] == "whole"
            assert second.next()[0] == first.next()[0] == "changes"


def test_a_server_that_stops_lets_its_viewers_go(admin: Server) -> None:
    with closing(Viewer(admin.admin_port)) as viewer:
        viewer.next()

        assert admin.stop() == 0

        assert viewer.is_over()


def test_the_api_shows_and_changes_nothing(admin_wire: Wire, wire_of: Wire) -> None:
    message_id = wire_of.publish("orders", b"coffee")

    assert admin_wire.request("GET", "/api/orders").json()["ready"] == 1
    assert admin_wire.request("GET", "/api/orders/messages?peek").body == b"coffee"
    [line] = admin_wire.request("GET", "/api/orders/messages?peek&max=5").body.splitlines()
    assert json.loads(line)["id"] == message_id
    for method, target in (
        ("PUT", "/api/new"),
        ("DELETE", "/api/orders"),
        ("DELETE", "/api/orders?peek"),
        ("POST", "/api/orders/messages"),
        ("POST", "/api/orders/messages?peek"),
        ("GET", "/api/orders/messages"),
        ("GET", "/api/orders/messages?max=5"),
        ("GET", f"/api/orders/messages?id={message_id}&visibility=5"),
        ("GET", "/api/orders/messages?%70eek"),
        ("DELETE", f"/api/orders/messages/{message_id}"),
        ("GET", "/api//orders"),
        ("GET", "/api/"),
    ):
        body = b"" if method == "POST" else None
        assert_problem(admin_wire.request(method, target, body), 403, "read-only", "--admin-write")
    assert wire_of.count("orders") == (1, 0)


def test_whoever_may_write_does_there_what_the_main_port_does(
    start_server: Callable[..., Server],
) -> None:
    server = start_server("--admin=127.0.0.1:0", "--admin-write")
    with closing(Wire(server.admin_port)) as wire:
        assert wire.request("PUT", "/api/orders").status == 201
        published = wire.request("POST", "/api/orders/messages", b"x" * 300_000)
        assert published.status == 201
        message_id = published.headers["x-message-id"]
        assert wire.request("GET", "/api/orders/messages?peek").body == b"x" * 300_000
        assert wire.request("GET", "/api/orders/messages").headers["x-message-id"] == message_id
        assert wire.request("DELETE", f"/api/orders/messages/{message_id}").status == 202
        assert_problem(wire.request("GET", "/api/absent"), 404, "queue-not-found", "absent")
        for other in ("/api/", "/api//orders", "/api//[", "/api//mq:x/orders"):
            assert_problem(wire.request("GET", other), 404, "unknown-path")
        assert wire.request("DELETE", "/api/orders").status == 200
        assert wire.request("GET", "/livez").status == 200


@pytest.mark.parametrize("more", [{"origin": "http://evil.example"}, {"host": "evil.example"},
                                  {"sec_fetch_site": "cross-site"}])  # fmt: skip
def test_no_other_site_writes_there(
    start_server: Callable[..., Server], more: dict[str, str]
) -> None:
    server = start_server("--admin=127.0.0.1:0", "--admin-write")
    with closing(Wire(server.admin_port)) as wire:
        request = request_bytes("PUT", "/api/orders", None, **more)
        if "host" in more:
            request = request.replace(b"Host: mq\r\n", b"")
        wire.send(request)

        assert wire.answer().status in (403, 421)
    assert not (server.root / "queues" / "orders").exists()


def test_tokens_hold_as_on_the_main_port(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    tokens = make_token_file(
        tmp_path, f"reader read {READER}", f"writer write,admin orders {WRITER}"
    )
    server = start_server("--admin=127.0.0.1:0", "--admin-write", f"--token-file={tokens}")
    reader, writer = f"Bearer {READER}", f"Bearer {WRITER}"
    with closing(Wire(server.admin_port)) as wire:
        assert wire.request("GET", "/").status == 200
        assert_problem(wire.request("GET", "/events"), 401, "unauthorized")
        assert_problem(wire.request("GET", "/api/orders"), 401, "unauthorized")
    with closing(Wire(server.admin_port)) as wire:
        assert_problem(wire.request("PUT", "/api/orders", authorization=reader), 403, "forbidden")
        assert wire.request("PUT", "/api/orders", authorization=writer).status == 201
        assert wire.request("GET", "/api/orders", authorization=reader).status == 200
        assert_problem(wire.request("GET", "/events", authorization=writer), 403, "forbidden")
    with closing(Viewer(server.admin_port, authorization=reader)) as viewer:
        assert viewer.next()[1]["queues"].keys() == {"orders"}


def test_a_viewer_whose_token_is_taken_away_sees_no_more(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    tokens = make_token_file(tmp_path, f"reader read {READER}")
    server = start_server("--admin=127.0.0.1:0", f"--token-file={tokens}")
    with closing(Viewer(server.admin_port, authorization=f"Bearer {READER}")) as viewer:
        viewer.next()
        tokens.write_text(f"other read {WRITER}\n")
        server.popen.send_signal(signal.SIGHUP)
        wait_until(lambda: "event=reloaded" in server.log())

        with pytest.raises(AssertionError, match="the stream ended"):
            [viewer.next() for _ in range(5)]


def test_nginx_is_asked_to_pass_events_on_at_once(admin_wire: Wire) -> None:
    assert admin_wire.request("HEAD", "/events").headers["x-accel-buffering"] == "no"


def test_however_many_watch_health_is_served(admin: Server, admin_wire: Wire) -> None:
    viewers = [Viewer(admin.admin_port) for _ in range(MAX_VIEWERS)]
    for viewer in viewers:
        viewer.next()
    answer = admin_wire.request("GET", "/events")

    assert_problem(answer, 503, "unavailable", f"{MAX_VIEWERS} viewers watch already")
    assert admin_wire.request("GET", "/readyz").status == 200
    viewers.pop().close()

    wait_until(lambda: may_watch(admin))
    for viewer in viewers:
        viewer.close()


def may_watch(server: Server) -> bool:
    with closing(Viewer(server.admin_port)) as viewer:
        return viewer.status == 200


def test_viewers_that_left_cost_nothing(admin: Server) -> None:
    descriptors = Path(f"/proc/{admin.popen.pid}/fd")
    before = len(list(descriptors.iterdir()))
    for _ in range(3):
        viewers = [Viewer(admin.admin_port) for _ in range(MAX_VIEWERS // 4)]
        for viewer in viewers:
            viewer.next()
        for viewer in viewers:
            viewer.close()

    wait_until(lambda: len(list(descriptors.iterdir())) <= before)


async def test_a_look_that_fails_by_a_defect_is_not_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mq.admin.live._LOOK_SECONDS", 0.0)
    looks: Iterator[Exception | Look] = iter([KeyError("orders"), Look(0.0, {}, {}, None, [])])

    async def take() -> Look:
        found = next(looks)
        if isinstance(found, Exception):
            raise found
        return found

    async with asyncio.timeout(20), aclosing(Live({}, take).events()) as events:
        assert (await anext(events)).startswith(b"event: whole")
