"""What every answer about messages has, whether the connection goes on after it or not."""

from __future__ import annotations

import os
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from time import time

import pytest

from tests.conftest import Server
from tests.contract.conftest import Answer, Wire, request_bytes

ENDS: dict[str, tuple[str, dict[str, str]]] = {
    "HTTP/1.1": ("HTTP/1.1", {}),
    "HTTP/1.1 and close": ("HTTP/1.1", {"connection": "close"}),
    "HTTP/1.0": ("HTTP/1.0", {}),
    "HTTP/1.0 and keep": ("HTTP/1.0", {"connection": "keep-alive"}),
}


def answers(connect: Callable[[], Wire], queue: str, end: str) -> list[Answer]:
    """Of a publish, a fetch, one of several, one that finds none, and a removal."""
    version, headers = ENDS[end]

    def ask(method: str, path: str, body: bytes | None = None) -> Answer:
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
        assert answer.headers["cache-control"] == "no-store"
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
