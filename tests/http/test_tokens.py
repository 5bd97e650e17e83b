"""Access with tokens, over a real socket: who gets in, who does not, and what they are told."""

from __future__ import annotations

import hashlib
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mq.web.routes import RESOURCES
from mq.web.tokens import Scope
from tests.support.processes import FreshServer, Process, Server, wait_until
from tests.support.refusals import start
from tests.support.token_files import make_token_file
from tests.support.wire import Wire, WireAnswer, assert_problem

READER = "reader-kT3vVt9xkq3mP2sYw8LrBg"
WRITER = "writer-8wYs2Pm3qkx9tVv3TkgBrL"
ADMIN = "admin-mP2sYw8LrBgkT3vVt9xkq3=="
BOUND = "bound-sYw8LrBgkT3vVt9xkq3mP2"
FILE = f"""\
reader  read                {READER}
writer  write               {WRITER}
admin   admin               {ADMIN}
bound   read,write orders   {BOUND}
"""
TOKENS = {Scope.READ: READER, Scope.WRITE: WRITER, Scope.ADMIN: ADMIN}
REQUESTS = {
    (method, path, query): route.scope if not query else route.scopes[query]
    for path, resource in RESOURCES.items()
    for method, route in resource.items()
    for query in ("", *route.scopes)
}


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_token_file(tmp_path_factory.mktemp("tokens"), FILE)


@pytest.fixture(scope="module")
def server(start_shared: Callable[..., Server], token_file: Path) -> Iterator[Server]:
    """Whatever clients send, no log line has a token in it."""
    server = start_shared(f"--token-file={token_file}", "--admin=127.0.0.1:0")
    yield server
    assert not re.search("|".join((*TOKENS.values(), BOUND)).replace("+", r"\+"), server.log())


@pytest.fixture
def orders(wire: Wire) -> str:
    assert ask(wire, "PUT", "/orders", ADMIN).status in (200, 201)
    return "orders"


def ask(
    wire: Wire, method: str, target: str, token: str | None, body: bytes | None = None
) -> WireAnswer:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return wire.request(method, target, body, **headers)


def assert_unauthorized(answer: WireAnswer, method: str = "GET") -> None:
    assert answer.headers["www-authenticate"].startswith('Bearer realm="mq"')
    if method != "HEAD":
        assert_problem(answer, 401, "unauthorized")
    assert answer.status == 401


def assert_forbidden(answer: WireAnswer, scope: Scope, method: str = "GET") -> None:
    expected = f'Bearer realm="mq", error="insufficient_scope", scope="{scope}"'
    assert answer.headers["www-authenticate"] == expected
    if method != "HEAD":
        assert_problem(answer, 403, "forbidden")
    assert answer.status == 403


@pytest.mark.parametrize(("method", "path", "query"), REQUESTS)
def test_a_request_needs_its_scope_and_no_other(
    wire: Wire, orders: str, method: str, path: str, query: str
) -> None:
    """No scope includes another."""
    target = path.format(queue=orders, id="absent") + (f"?{query}" if query else "")
    needed = REQUESTS[method, path, query]
    body = b"body" if method == "POST" else None

    for scope, token in TOKENS.items():
        answer = ask(wire, method, target, token, body)
        if scope is needed:
            assert answer.status in (200, 201, 204, 404)
        else:
            assert_forbidden(answer, needed, method)
    assert_unauthorized(ask(wire, method, target, None, body), method)
    assert_unauthorized(ask(wire, method, target, "unknown", body), method)


@pytest.mark.parametrize(
    ("method", "target"),
    [("GET", "/"), ("GET", "/a/b/c/d"), ("PATCH", "/orders"), ("GET", "/a%2Fb"), ("GET", "/q?x=1"),
     ("HEAD", "/orders/messages"), ("OPTIONS", "*")],
)  # fmt: skip
def test_without_a_token_nobody_is_told_what_there_is(wire: Wire, method: str, target: str) -> None:
    assert_unauthorized(wire.request(method, target), method)


def test_a_bound_token_is_for_its_queues_alone(wire: Wire, orders: str) -> None:
    assert ask(wire, "PUT", "/bills", ADMIN).status in (200, 201)

    assert ask(wire, "GET", "/orders", BOUND).status == 200
    assert ask(wire, "POST", "/orders/messages", BOUND, b"one").status == 201
    for target in ("/bills", "/absent", "/orders.dead"):
        answer = ask(wire, "GET", target, BOUND)
        assert_forbidden(answer, Scope.READ)
        assert f"token bound is not for {target[1:]}" in answer.json()["detail"]
    assert_forbidden(ask(wire, "POST", "/bills/messages", BOUND, b"one"), Scope.WRITE)


def test_a_bound_token_moves_nothing_out_of_other_queues_nor_into_them(
    wire: Wire, orders: str
) -> None:
    assert ask(wire, "PUT", "/ledgers", ADMIN).status in (200, 201)
    assert ask(wire, "POST", "/ledgers/messages", WRITER, b"one").status == 201

    for target in (
        "/orders/messages?from=ledgers", "/orders/messages?from=%6Cedgers",
        "/ledgers/messages?from=orders", "/orders/messages?from=absent&max=1",
    ):  # fmt: skip
        assert_forbidden(ask(wire, "POST", target, BOUND), Scope.WRITE)
    both = ask(wire, "POST", "/orders/messages?from=orders&from=ledgers", BOUND)
    assert_problem(both, 400, "invalid-request")

    assert ask(wire, "GET", "/ledgers", READER).json()["ready"] == 1
    assert ask(wire, "POST", "/orders/messages?from=ledgers", WRITER).json()["moved"] == 1


def test_a_bound_token_names_no_other_queue(wire: Wire, orders: str) -> None:
    for name in ("invoices", "refunds"):
        assert ask(wire, "PUT", f"/{name}", ADMIN).status in (200, 201)
        assert ask(wire, "POST", f"/{name}/messages", WRITER, b"one").status == 201

    for target in (
        "/orders/messages?then=invoices", "/orders/messages?then=%69nvoices",
        "/orders/messages?then=orders,invoices", "/orders/messages?then=orders&then=invoices",
        "/orders/messages?then=absent", "/invoices/messages?then=orders",
    ):  # fmt: skip
        assert_forbidden(ask(wire, "GET", target, BOUND), Scope.WRITE)
        assert_forbidden(ask(wire, "POST", target.replace("then", "also"), BOUND), Scope.WRITE)
    assert ask(wire, "GET", "/orders/messages?then=orders", BOUND).status in (200, 204)
    assert ask(wire, "POST", "/orders/messages?also=orders", BOUND, b"one").status == 201
    several = "/orders/messages?then=invoices&max=5&wait=1"
    assert {ask(wire, "GET", several, each).status for each in (BOUND, READER)} == {403}
    answer = ask(wire, "GET", "/refunds/messages?then=orders,invoices", WRITER)
    assert answer.headers["x-queue"] == "refunds"


@pytest.mark.parametrize(
    "value",
    [
        "", "Bearer", "Bearer ", f"Basic {WRITER}", WRITER, f"Token {WRITER}", f"Bearer{WRITER}",
        f"Bearer {WRITER} {WRITER}", f"Bearer {WRITER},", f"Bearer {WRITER[:-1]}",
        f"Bearer {WRITER}x", f"Bearer {WRITER.upper()}", f'Bearer "{WRITER}"',
        "Bearer " + "x" * 4000,
        "Bearer k\xe4se", "Bearer \xff\xfe", "Bearer writer", "Bearer *",
    ],
)  # fmt: skip
def test_what_is_no_known_token_gets_nobody_in(wire: Wire, orders: str, value: str) -> None:
    answer = wire.request("GET", "/orders/messages", authorization=value)

    assert_unauthorized(answer)
    assert WRITER not in str(answer)


@pytest.mark.parametrize("secret", ["", "x", "fifteen-letters"])
def test_a_hash_of_a_short_token_lets_nobody_in(
    start_server: Callable[..., Server],
    connect: Callable[[Server], Wire],
    tmp_path: Path,
    secret: str,
) -> None:
    """A file with the hash of an empty token is refused; of any other short token the server cannot
    see how short it is."""
    path = make_token_file(tmp_path, f"a read sha256:{hashlib.sha256(secret.encode()).hexdigest()}")
    if not secret:
        message = start("mq", f"--root={tmp_path / 'root'}", f"--token-file={path}")[1]
        assert "SHA-256 of an empty text" in message
        return
    server = start_server(f"--token-file={path}")

    for value in (f"Bearer {secret}", "Bearer ", "Bearer"):
        assert_unauthorized(connect(server).request("GET", "/orders", authorization=value))


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer "])
def test_the_scheme_may_be_written_in_any_case(wire: Wire, orders: str, scheme: str) -> None:
    answer = wire.request("GET", "/orders", authorization=f"{scheme} {READER}")

    assert answer.status == 200


def test_the_header_twice_is_refused(wire: Wire, orders: str) -> None:
    for values in ((READER, READER), (READER, "wrong"), ("wrong", READER)):
        lines = "".join(f"Authorization: Bearer {value}\r\n" for value in values)
        wire.send(f"GET /orders HTTP/1.1\r\nHost: mq\r\n{lines}\r\n".encode())

        assert_problem(wire.answer(), 400, "invalid-request", "is given twice")


@pytest.mark.parametrize("name", ["access_token", "token", "authorization"])
def test_a_token_in_the_query_is_none(wire: Wire, orders: str, name: str) -> None:
    assert_unauthorized(wire.request("GET", f"/orders?{name}={READER}"))
    assert_unauthorized(wire.request("PUT", f"/orders?{name}={ADMIN}"))
    assert_problem(ask(wire, "GET", f"/orders?{name}=x", READER), 400, "invalid-request", name)


def test_a_token_larger_than_a_header_is_no_http(
    connect: Callable[[Server], Wire], server: Server
) -> None:
    wire = connect(server)

    assert_problem(ask(wire, "GET", "/orders", "x" * 10_000), 400, "bad-http")


def test_a_refused_body_is_never_asked_for(
    server: Server, connect: Callable[[Server], Wire]
) -> None:
    wire = connect(server)

    answer = wire.request(
        "POST", "/orders/messages", content_length="1000000", expect="100-continue"
    )

    assert_unauthorized(answer)
    assert answer.headers["connection"] == "close"


def test_metrics_need_a_token_for_every_queue_and_health_needs_none(server: Server) -> None:
    wire = Wire(server.admin_port)
    try:
        assert wire.request("GET", "/livez").status == 200
        assert wire.request("GET", "/readyz").status == 200
        assert wire.request("GET", "/openapi.json").status == 200
        assert_unauthorized(wire.request("GET", "/metrics"))
        assert_forbidden(ask(wire, "GET", "/metrics", WRITER), Scope.READ)
        assert_forbidden(ask(wire, "GET", "/metrics", BOUND), Scope.READ)
        assert ask(wire, "GET", "/metrics", READER).status == 200
    finally:
        wire.close()


def test_tokens_are_read_again_on_sighup(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire], tmp_path: Path
) -> None:
    """Connections stay. What is not in order is logged, and the old tokens stay."""
    path = make_token_file(tmp_path, f"a admin,read {READER}")
    server = start_server(f"--token-file={path}")
    wire = connect(server)
    assert ask(wire, "PUT", "/orders", READER).status == 201

    path.write_text(f"a read {WRITER}")
    os.kill(server.popen.pid, signal.SIGHUP)
    wait_until(lambda: "event=reloaded" in server.log())

    assert_unauthorized(ask(wire, "GET", "/orders", READER))
    assert ask(wire, "GET", "/orders", WRITER).status == 200

    path.write_text(f"a read {READER} {READER} {READER}")
    os.kill(server.popen.pid, signal.SIGHUP)
    wait_until(lambda: "not reloaded; the old one stays" in server.log())

    assert ask(wire, "GET", "/orders", WRITER).status == 200
    assert READER not in server.log()
    assert server.log().count("event=reloaded") == 1


def test_no_secret_stands_on_a_command_line(
    tmp_path: Path, processes: list[Process], token_file: Path
) -> None:
    """No command line has one, neither the server's nor those of its children."""
    flags = (f"--token-file={token_file}", "--standalone")
    processes.append(server := FreshServer(tmp_path / "root", *flags, log=tmp_path / "log"))
    wait_until(lambda: server.log().count("event=configuration") == 3, 100)
    pid = server.popen.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    shown = [Path(f"/proc/{each}/{what}").read_text()
             for each in (str(pid), *children) for what in ("cmdline", "environ")]  # fmt: skip

    assert len(shown) == 6
    assert not [secret for secret in TOKENS.values() if any(secret in text for text in shown)]
    assert not [secret for secret in TOKENS.values() if secret in server.log()]


def test_without_the_flag_no_token_is_asked_for(start_server: Callable[..., Server]) -> None:
    wire = Wire(start_server().port)

    assert wire.request("PUT", "/orders").status == 201
    assert ask(wire, "GET", "/orders", "whatever").status == 200
    wire.close()
