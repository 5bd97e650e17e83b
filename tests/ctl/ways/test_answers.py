"""`mqctl` over HTTP, and answers that break off: in the head, in the body, in a line."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from mq.ctl.ways.by_http import HttpAccess
from mq.ctl.ways.connect import ClientCredentials
from mq.errors import CommandFailed, ExitCode
from mq.lines.ndjson import Line
from mq.names import MessageId, QueueName

ORDERS = QueueName("orders")
ID = MessageId("01a1fd26-2a71-7b43-8a4e-0cbd4d3f9c11")
PUBLISHED_AT = "2026-11-21T08:08:19.313206Z"

COUNTS = b'{"queue": "orders", "ready": 1, "leased": 0, "delayed": 0, "oldest_age_seconds": 1.5}'
LINE = {"id": ID, "state": "ready", "published_at": PUBLISHED_AT, "body": "coffee"}
LINES = json.dumps(LINE).encode() + b"\n"
MESSAGE = f'X-Message-Id: {ID}\r\nX-Published-At: {PUBLISHED_AT}\r\nETag: "0f9e8d7c6b5a4938"\r\n'


def answer(status: str, headers: str = "", body: bytes = b"") -> bytes:
    head = f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


CALLS: dict[str, tuple[Callable[[HttpAccess], object], bytes]] = {
    "create": (lambda access: access.create_queue(ORDERS), answer("201 Created")),
    "info": (lambda access: access.describe_queue(ORDERS), answer("200 OK", "", COUNTS)),
    "send": (
        lambda access: access.publish(ORDERS, io.BytesIO(b"body"), Line(b"body")),
        answer("201 Created", f"X-Message-Id: {ID}\r\n"),
    ),
    "send --batch": (
        lambda access: access.publish_batch(ORDERS, b""),
        answer("201 Created", "", 2 * (json.dumps({"id": ID}).encode() + b"\n")),
    ),
    "recv": (
        lambda access: receive(access).read(),
        answer("200 OK", MESSAGE, b"two coffees\n and cake\n"),
    ),
    "recv, through a proxy that sends pieces": (
        lambda access: receive(access).read(),
        f"HTTP/1.1 200 OK\r\n{MESSAGE}Transfer-Encoding: chunked\r\n\r\n"
        "5\r\ntwo c\r\n6\r\noffees\r\n0\r\n\r\n".encode(),
    ),
    "peek": (lambda access: list(access.peek(ORDERS, 1)), answer("200 OK", "", LINES)),
    "ack": (lambda access: access.remove(ORDERS, ID, None), answer("202 Accepted")),
    "release": (
        lambda access: access.release(ORDERS, ID, None),
        b"HTTP/1.1 204 No Content\r\nDate: now\r\n\r\n",
    ),
}


def receive(access: HttpAccess) -> io.BytesIO:
    message = access.receive(ORDERS, None)
    assert message is not None
    return message.body  # type: ignore[return-value]


class Teller:
    """Reads one request a connection, as much as comes, then tells `answer` and closes."""

    def __init__(self) -> None:
        self.answer = b""
        self.heard = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            # The other end may close with half of it unread.
            with connection, suppress(OSError):
                request = connection.recv(65536)
                if not request:
                    return
                self.heard = request
                connection.sendall(self.answer)
                # Until the other end closes: a reset would take away what it has not read yet.
                connection.shutdown(socket.SHUT_WR)
                while more := connection.recv(65536):
                    self.heard += more

    def close(self) -> None:
        """A connection without a request ends it."""
        socket.create_connection(self._listener.getsockname()).close()
        self._thread.join(10)
        self._listener.close()


@pytest.fixture
def teller() -> Iterator[Teller]:
    teller = Teller()
    yield teller
    teller.close()


@pytest.mark.parametrize("name", CALLS)
def test_an_answer_that_breaks_off_anywhere_is_no_success(teller: Teller, name: str) -> None:
    call, whole_answer = CALLS[name]

    for cut in range(len(whole_answer)):
        teller.answer = whole_answer[:cut]
        with closing(HttpAccess(teller.url, ClientCredentials())) as access:
            with pytest.raises(CommandFailed) as failed:
                call(access)
            assert failed.value.exit_code == ExitCode.UNAVAILABLE, cut

    teller.answer = whole_answer
    with closing(HttpAccess(teller.url, ClientCredentials())) as access:
        call(access)


def test_a_message_that_breaks_off_is_not_published_anew(teller: Teller) -> None:
    """`redrive` would remove the message that it was published from after that."""
    teller.answer = answer("200 OK", MESSAGE, bytes(200_000))[:150_000]
    other = Teller()
    other.answer = answer("201 Created", f"X-Message-Id: {ID}\r\n")

    with (
        closing(HttpAccess(teller.url, ClientCredentials())) as access,
        closing(HttpAccess(other.url, ClientCredentials())) as sender,
        pytest.raises(CommandFailed, match="ended after"),
    ):
        sender.publish(ORDERS, receive(access), Line(b""))

    other.close()
    head, _, body = other.heard.partition(b"\r\n\r\n")
    assert b"Transfer-Encoding: chunked" in head
    assert not body.endswith(b"0\r\n\r\n")


NESTED = b"[" * 100_000


def line(**members: object) -> bytes:
    return answer("200 OK", "", json.dumps(LINE | members).encode() + b"\n")


HOSTILE: dict[str, tuple[Callable[[HttpAccess], object], bytes]] = {
    "info, nested deeply": (CALLS["info"][0], answer("200 OK", "", NESTED)),
    "info, a refusal nested deeply": (CALLS["info"][0], answer("400 Bad", "", NESTED)),
    "info, counts that are text": (
        CALLS["info"][0], answer("200 OK", "", COUNTS.replace(b"1,", b'"1",')),
    ),
    "send --batch, nested deeply": (CALLS["send --batch"][0], answer("201 Created", "", NESTED)),
    "send --batch, an id that is a number": (
        CALLS["send --batch"][0], answer("201 Created", "", b'{"id": 5}\n'),
    ),
    "peek, nested deeply": (CALLS["peek"][0], answer("200 OK", "", NESTED)),
    "peek, an id that is a number": (CALLS["peek"][0], line(id=5)),
    "peek, a time that is a number": (CALLS["peek"][0], line(published_at=5)),
    "peek, a type that is a list": (CALLS["peek"][0], line(content_type=[])),
    "recv, a count that is text": (
        CALLS["recv"][0], answer("200 OK", f"{MESSAGE}X-Receive-Count: many\r\n"),
    ),
    "recv, an id that is not ASCII": (
        CALLS["recv"][0],
        answer("200 OK", MESSAGE.replace(ID, "%")),
    ),
    "recv, a length that is text": (
        CALLS["recv"][0],
        f"HTTP/1.1 200 OK\r\n{MESSAGE}Content-Length: many\r\n\r\n".encode(),
    ),
    "ls, nested deeply": (lambda access: access.list_queues(), answer("200 OK", "", NESTED)),
    "top, a counter that is text": (
        lambda access: access.passed(),
        answer("200 OK", "", b'mq_queue_messages_published_total{queue="orders"} many\n'),
    ),
    "top, a counter without end": (
        lambda access: access.passed(),
        answer("200 OK", "", b'mq_queue_messages_published_total{queue="orders"} +Inf\n'),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_no_server_of_mq_says_is_no_defect(teller: Teller, name: str) -> None:
    call, teller.answer = HOSTILE[name]

    with (
        closing(HttpAccess(teller.url, ClientCredentials(), teller.url)) as access,
        pytest.raises(CommandFailed) as failed,
    ):
        call(access)

    assert failed.value.exit_code == ExitCode.UNAVAILABLE
