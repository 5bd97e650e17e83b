"""What every answer about messages has, whether the connection goes on after it or not."""

from __future__ import annotations

import os
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from time import time

import pytest

from mq.web.answers import Answer
from tests.support.processes import Server
from tests.support.wire import SMALL_BODY_BYTES, Wire, WireAnswer, make_queue, request_bytes

ENDS: dict[str, tuple[str, dict[str, str]]] = {
    "HTTP/1.1": ("HTTP/1.1", {}),
    "HTTP/1.1 and close": ("HTTP/1.1", {"connection": "close"}),
    "HTTP/1.0": ("HTTP/1.0", {}),
    "HTTP/1.0 and keep": ("HTTP/1.0", {"connection": "keep-alive"}),
}


def answers(connect: Callable[[], Wire], queue: str, end: str) -> list[WireAnswer]:
    """Return the answers to a publish, a receive, a receive of several, one that finds none, and a
    removal."""
    version, headers = ENDS[end]

    def ask(method: str, path: str, body: bytes | None = None) -> WireAnswer:
        wire = connect()
        wire.send(
            request_bytes(method, f"/{queue}/messages{path}", body, **headers).replace(
                b" HTTP/1.1\r\n", f" {version}\r\n".encode(), 1
            )
        )
        answer = wire.answer(method)
        if end in ("HTTP/1.1 and close", "HTTP/1.0"):
            assert wire.is_closed()
        else:
            assert wire.request("GET", f"/{queue}").status == 200
        return answer

    published = ask("POST", "", b"body")
    ask("POST", "", b"body")
    return [
        published,
        ask("GET", ""),
        ask("GET", "?max=2"),
        ask("GET", ""),
        ask("DELETE", f"/{published.headers['x-message-id']}"),
    ]


@pytest.mark.parametrize("end", ENDS)
def test_every_answer_has_a_date_and_a_length_and_says_whether_the_connection_goes_on(
    server: Server, connect: Callable[[Server], Wire], queue: str, end: str
) -> None:
    found = answers(lambda: connect(server), queue, end)

    assert [answer.status for answer in found] == [201, 200, 200, 204, 202]
    for answer in found:
        assert answer.version == end[:8]
        assert answer.headers["server"] == "mq"
        assert answer.headers["cache-control"] == "no-store, no-transform"
        assert abs(parsedate_to_datetime(answer.headers["date"]).timestamp() - time()) < 60
        assert ("content-length" in answer.headers) == (answer.status != 204)
        expected = {"HTTP/1.1 and close": "close", "HTTP/1.0 and keep": "keep-alive"}.get(end)
        assert answer.headers.get("connection") == expected


def test_an_answer_is_the_same_whether_the_connection_goes_on_or_not(
    server: Server, connect: Callable[[Server], Wire], queue: str
) -> None:
    going_on, closing = (
        [
            set(answer.headers) - {"connection"}
            for answer in answers(lambda: connect(server), queue, end)
        ]
        for end in ("HTTP/1.1", "HTTP/1.1 and close")
    )

    assert going_on == closing


@pytest.mark.parametrize("line_break", ["\r\n", "\n", "\r"])
def test_a_type_that_a_person_wrote_cannot_break_a_header(
    server: Server, wire: Wire, queue: str, line_break: str
) -> None:
    path = server.root / "queues" / queue / wire.publish(queue)
    try:
        os.setxattr(path, "user.mime_type", f"text/plain{line_break}X-Planted: yes".encode())
    except OSError:
        pytest.skip("this file system has no extended attributes")

    answer = wire.receive(queue)

    assert (answer.status, answer.body) == (200, b"body")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "x-planted" not in answer.headers


def all_kinds(
    server: Server, connect: Callable[[Server], Wire], queue: str
) -> dict[str, WireAnswer]:
    """An answer of each kind; the names of those that bear bodies of messages begin with that."""
    wire, large, huge = connect(server), b"x" * 600_000, b"x" * (17 << 20)
    page = {"content_type": "text/html"}
    path = f"/{queue}/messages"
    found = {"201": wire.request("POST", path, b"<script>", **page)}
    wire.publish(queue, large, **page)
    wire.publish(queue, huge, **page)
    found |= {
        "body by peek": wire.request("GET", f"{path}?peek"),
        "bodies by peek": wire.request("GET", f"{path}?peek&max=2"),
        "body": wire.request("GET", path),
        "body that is streamed": wire.request("GET", path),
        "bodies in one streamed line": wire.request("GET", f"{path}?max=1"),
    }
    wire.publish(queue, b"<script>")
    found["bodies"] = wire.request("GET", f"{path}?max=10")
    message_id = found["body"].headers["x-message-id"]
    found |= {
        "body by id": wire.request("GET", f"{path}?id={message_id}"),
        "204": wire.request("GET", path),
        "202": wire.request("DELETE", f"{path}/{message_id}"),
        "counts": wire.request("GET", f"/{queue}"),
        "queue made": wire.request("PUT", f"/{queue}"),
        "404": wire.request("GET", "/absent"),
        "405": wire.request("POST", f"/{queue}", b"body"),
        "413": wire.request("POST", path, content_length=str(1 << 40)),
    }
    admin = Wire(server.admin_port)
    for target in ("/livez", "/metrics", "/queues", "/openapi.json", "/absent"):
        found[target] = admin.request("GET", target)
    admin.close()
    for name, data in (("400", b"no http\r\n\r\n"), ("408", b"GET /late HTTP/1.1\r\n")):
        broken = connect(server)
        broken.send(data)
        found[name] = broken.answer()
    return found


def test_no_answer_lets_a_browser_guess_a_type_or_run_what_is_in_it(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire]
) -> None:
    server = start_server("--admin=127.0.0.1:0", "--header-timeout=1")
    wire = connect(server)
    assert wire.request("PUT", "/pages").status == 201

    found = all_kinds(server, connect, "pages")

    for kind, answer in found.items():
        assert answer.headers["x-content-type-options"] == "nosniff", kind
        policy = answer.headers["content-security-policy"]
        assert policy == "sandbox; default-src 'none'", kind
        disposition = answer.headers.get("content-disposition")
        assert disposition == ("attachment" if kind.startswith("bod") else None), kind
        if kind.startswith("bod"):
            assert answer.status == 200, kind


def test_the_body_of_an_error_ends_its_line(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire]
) -> None:
    server = start_server("--admin=127.0.0.1:0", "--header-timeout=1")
    assert connect(server).request("PUT", "/pages").status == 201

    found = all_kinds(server, connect, "pages")

    errors = {kind: answer for kind, answer in found.items() if answer.status >= 400}
    assert {answer.status for answer in errors.values()} == {400, 404, 405, 408, 413}
    for kind, answer in errors.items():
        assert answer.body.endswith(b"}\n"), kind


def test_a_method_that_is_not_there_says_where_it_is(wire: Wire, queue: str) -> None:
    for method, path, hint in (
        ("POST", "", f"published by POST to /{queue}/messages"),
        ("POST", "/messages/a-b", f"published by POST to /{queue}/messages"),
        ("GET", "/messages/a-b", f"GET of /{queue}/messages?peek&id=a-b shows"),
        ("PUT", "/messages/a-b", f"POST to /{queue}/messages with X-Message-Id"),
        ("PUT", "/messages", f"published by POST, queues made by PUT of /{queue}"),
        ("DELETE", "/messages", f"DELETE of /{queue}?purge all, and the queue stays"),
    ):
        answer = wire.request(method, f"/{queue}{path}", b"" if method == "POST" else None)

        assert answer.status == 405
        assert hint in answer.json()["detail"]


@pytest.mark.parametrize("query", ["", "?max=10", "?peek"])
def test_a_large_answer_says_that_it_is_the_last_of_its_connection(wire: Wire, query: str) -> None:
    """The parser passes over what comes in one piece with the end of such a request."""
    queue = make_queue(wire)
    wire.publish(queue, b"b" * 3 * SMALL_BODY_BYTES)
    upgrade = {"connection": "Upgrade", "upgrade": "h2c"}

    wire.send(
        request_bytes("GET", f"/{queue}/messages{query}", **upgrade),
        request_bytes("GET", f"/{queue}"),
    )

    assert wire.answer().headers.get("connection") == "close"
    assert wire.is_closed()


@pytest.mark.parametrize("answer", [Answer(204), Answer(202), Answer(200, "X-A: 1\r\n", b"body")])
def test_what_ends_one_connection_ends_no_other(answer: Answer) -> None:
    first = answer.to_bytes(is_last=False)
    last = [answer.to_bytes(is_last=True) for _ in range(2)]

    assert [each.count(b"Connection: close\r\n") for each in last] == [1, 1]
    assert answer.to_bytes(is_last=False) == first
    assert b"Connection" not in first
