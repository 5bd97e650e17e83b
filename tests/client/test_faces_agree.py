"""Both clients agree in what they say of themselves, what they send and make of answers."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mq.client import (
    AsyncClient,
    AsyncMessage,
    AsyncQueue,
    AsyncWorker,
    Client,
    ClientError,
    Message,
    Queue,
    Worker,
)
from mq.client.aio.message import AsyncRenewal
from mq.client.blocking.message import Renewal
from tests.support.faces import Loop, open_client

PAIRS = [(Client, AsyncClient), (Queue, AsyncQueue), (Message, AsyncMessage), (Worker, AsyncWorker)]
ALL_PAIRS = [*PAIRS, (Renewal, AsyncRenewal)]
NOT_AWAITED = {"queue", "messages", "worker", "renewing", "stop", "text", "json"}
OF_THREADS_OR_TASKS = {"close", "worker", "run", "stop", "renewing"}
"""What they say of these differs, as threads and tasks do."""

ID = "01a1fd26-3c0e-7d90-b1f2-6a5e8f7d2b22"
TIME = "2026-11-21T08:08:23.822417Z"
MESSAGE = {
    "X-Message-Id": ID, "Content-Type": "text/plain", "ETag": '"0f9e8d7c6b5a4938"',
    "X-Published-At": TIME, "X-Visible-At": TIME, "X-Receive-Count": "3",
}  # fmt: skip
SHOWN = {name: value for name, value in MESSAGE.items() if name != "ETag"}
COUNTS = '{"queue":"orders","ready":1,"leased":2,"delayed":3,"oldest_age_seconds":4.5}'

Operation = Callable[[Any], object]
OPERATIONS: dict[str, Operation] = {
    "create": lambda queue: queue.create(),
    "delete": lambda queue: queue.delete(),
    "purge": lambda queue: queue.purge("ready"),
    "counts": lambda queue: queue.counts(),
    "settings": lambda queue: queue.settings(),
    "publish": lambda queue: queue.publish("tea", delay=0.5, message_id=ID),
    "publish many": lambda queue: len(queue.publish_many(["one", b"two"])),
    "receive": lambda queue: fields_of(queue.receive(wait=1.5, visibility=30)),
    "receive many": lambda queue: [
        fields_of(each) for each in queue.receive_many(5, visibility=0.25)
    ],
    "peek": lambda queue: queue.peek(3, after=ID),
    "peek at hidden ones": lambda queue: queue.peek(3, ID, state="leased"),
    "peek at": lambda queue: queue.peek_at(ID),
    "remove": lambda queue: queue.remove(ID),
    "ack many": lambda queue: queue.ack_many({ID: "0f9e8d7c6b5a4938"}),
    "move": lambda queue: queue.move("orders.dead", max=5, reason="no use: 5 %"),
    "move many": lambda queue: queue.move_many("orders.dead", [ID, "b"], reason="x"),
    "move one": lambda queue: queue.receive().move("orders.dead", reason="x"),
    "acknowledge": lambda queue: queue.receive().ack(),
    "release": lambda queue: queue.receive().release(),
    "release later": lambda queue: queue.receive().release(7),
    "extend": lambda queue: queue.receive().extend(90),
}
ANSWERS: dict[str, tuple[int, dict[str, str], str]] = {
    "created": (201, {"X-Message-Id": ID}, ""),
    "nothing": (204, {}, ""),
    "counts": (200, {}, COUNTS),
    "message": (200, MESSAGE, "three teas"),
    "shown": (200, {**SHOWN, "X-State": "leased"}, "three teas"),
    "moved": (200, {}, '{"moved": 5, "taken": ["a"]}'),
    "garbage": (200, {}, "<html>"),
    "empty": (200, {}, ""),
    "some removed": (207, {}, f'{{"id":"{ID}","status":202}}\n{{"id":"b","status":404}}'),
    "one removed": (207, {}, f'{{"id":"{ID}","status":412}}'),
    "bad": (400, {}, '{"type":"urn:mq:problem:invalid-request","title":"t","detail":"d"}'),
    "unauthorized": (401, {}, '{"type":"urn:mq:problem:unauthorized","title":"t","detail":"d"}'),
    "no queue": (404, {}, '{"type":"urn:mq:problem:queue-not-found","title":"t","detail":"d"}'),
    "gone": (404, {}, '{"type":"urn:mq:problem:message-not-found","title":"t","detail":"d"}'),
    "lost": (412, {}, '{"type":"urn:mq:problem:lease-mismatch","title":"t","detail":"d"}'),
    "somebody else": (404, {}, "not here"),
    "busy": (503, {"Retry-After": "1"}, "{}"),
}


def fields_of(message: Any) -> object:
    if message is None:
        return None
    return message.id, message.body, message.content_type, message.receive_count, message.visible_at


class Scripted(ThreadingHTTPServer):
    """Gives every request the same answer, and notes it."""

    def __init__(self, answer: tuple[int, dict[str, str], str]) -> None:
        self.answer = answer
        self.requests: list[object] = []
        super().__init__(("127.0.0.1", 0), Answering)


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Scripted

    def answer(self) -> None:
        names = (
            "Authorization", "Content-Type", "If-Match", "X-Message-Id", "User-Agent",
            "Accept-Encoding",
        )  # fmt: skip
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        made_up = re.sub(rb'"id":\s*"[^"]*"', b"", body)
        headers = [self.headers.get(name) for name in names]
        self.server.requests.append((self.command, self.path, headers, made_up))
        status, given, text = self.server.answer
        self.send_response(status)
        for name, value in given.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_PUT = do_POST = do_DELETE = answer

    def log_message(self, *given: object) -> None: ...


def played(kind: str, loop: Loop, operation: Operation, answer: str) -> tuple[object, object]:
    """What was sent, and what came of it."""
    with Scripted(ANSWERS[answer]) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            with open_client(kind, loop, url, token="secret", retry_seconds=0) as mq:
                outcome = repr(operation(mq.queue("orders")))
        except (ClientError, AttributeError) as error:
            text = str(error).replace(url, "URL").replace("Async", "")
            outcome = f"{type(error).__name__}: {text}, {getattr(error, 'problem', None)}"
        finally:
            server.shutdown()
            thread.join()
        return server.requests, outcome


@pytest.mark.parametrize("answer", ANSWERS)
def test_both_send_the_same_and_make_the_same_of_an_answer(loop: Loop, answer: str) -> None:
    for name, operation in OPERATIONS.items():
        blocking = played("blocking", loop, operation, answer)
        asynchronous = played("async", loop, operation, answer)

        assert blocking == asynchronous, name


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("empty", "receive"),
        ("empty", "receive many"),
        ("empty", "peek"),
        ("empty", "publish many"),
        ("some removed", "ack many"),
        ("one removed", "move many"),
    ],
)
def test_an_answer_that_leaves_messages_out_is_not_from_a_server(
    loop: Loop, answer: str, name: str
) -> None:
    """A proxy may give such an answer. It would pass for an empty queue, or for removals that were
    done."""
    _, outcome = played("blocking", loop, OPERATIONS[name], answer)

    assert str(outcome).startswith("UnexpectedAnswer"), outcome


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("nothing", "create"),
        ("created", "delete"),
        ("nothing", "delete"),
        ("some removed", "remove"),
        ("nothing", "move many"),
        ("created", "move many"),
    ],
)
def test_a_success_that_a_server_does_not_answer_is_not_from_a_server(
    loop: Loop, answer: str, name: str
) -> None:
    """Whatever answers 204 to everything has made, deleted and moved nothing."""
    _, outcome = played("blocking", loop, OPERATIONS[name], answer)

    assert str(outcome).startswith("UnexpectedAnswer"), outcome


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].__name__)
def test_both_say_the_same_of_their_methods(pair: tuple[type, type]) -> None:
    for name, method in inspect.getmembers(pair[0], inspect.isfunction):
        if name.startswith("_") or name in OF_THREADS_OR_TASKS:
            continue
        assert inspect.getdoc(method) == inspect.getdoc(getattr(pair[1], name)), name


def signature_of(face: type, name: str) -> str:
    """Return the signature as it is for threads: an asynchronous generator iterates, and what is
    awaited is returned."""
    method = inspect.getattr_static(face, name)
    if isinstance(method, property):
        return f"property of {inspect.signature(method.fget)}"  # type: ignore[arg-type]
    text = str(inspect.signature(method))
    return re.sub(r"Awaitable\[(\w+)\]", r"\1", text).replace("Async", "")


@pytest.mark.parametrize("pair", ALL_PAIRS, ids=lambda pair: pair[0].__name__)
def test_both_take_and_return_the_same(pair: tuple[type, type]) -> None:
    """They also agree in how they are made, by users or by another part of the client."""
    names = [{name for name in dir(face) if not name.startswith("_")} for face in pair]
    assert names[0] == names[1]

    for name in (*sorted(names[0]), "__init__"):
        assert signature_of(pair[0], name) == signature_of(pair[1], name), name


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].__name__)
def test_what_is_awaited_is_what_asks_the_server(pair: tuple[type, type]) -> None:
    """So that adding `await` is all that it takes to go from one to the other."""
    awaited = {
        name
        for name, method in inspect.getmembers(pair[1], inspect.isfunction)
        if inspect.iscoroutinefunction(method) and not name.startswith("_")
    }
    asks = {
        name
        for name, method in inspect.getmembers(pair[0], inspect.isfunction)
        if not name.startswith("_") and name not in NOT_AWAITED
    }

    assert awaited == asks


def test_every_operation_of_a_queue_is_compared() -> None:
    public = {name for name in vars(Queue) if not name.startswith("_")}
    compared = {name.replace(" ", "_") for name in OPERATIONS}

    assert public - compared == {"messages", "worker"}
