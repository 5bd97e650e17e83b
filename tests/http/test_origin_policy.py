"""What a page in a browser on this machine can send: none of it does anything, and no other client
notices."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from mq.config import Address, ServerConfig
from mq.web.origin_policy import origin_policy_of
from mq.web.parameters import BareHead
from tests.support.processes import Server
from tests.support.token_files import make_token_file
from tests.support.wire import Wire, WireAnswer, assert_problem, make_queue, request_bytes

StartServer = Callable[..., Server]
Connect = Callable[[Server], Wire]

FOREIGN = {
    "another site": {"origin": "https://evil.example"},
    "a sandbox or a file": {"origin": "null"},
    "nothing": {"origin": ""},
    "another port": {"origin": "http://127.0.0.1:1"},
    "the usual port": {"origin": "http://127.0.0.1"},
    "a longer name": {"origin": "http://127.0.0.1.evil.example"},
    "another scheme": {"origin": "chrome-extension://127.0.0.1"},
    "no-cors, as of an image": {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"},
    "a link": {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate",
               "sec_fetch_dest": "document"},
    "another port of this machine": {"sec_fetch_site": "same-site"},
    "what is not known yet": {"sec_fetch_site": "near-site"},
}  # fmt: skip
STRANGERS = [
    "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example",
    "1.2.3", "0x7f000001", "[::1", "::1]", "a b", "127.0.0.1@evil.example",
    "[::]", "[::ffff:127.0.0.1]:8080", "[::ffff:7f00:1]",
    "evil.example:127.0.0.1", "localhost:8080:1", "*", "mqq", "127.0.0.1%.evil.example",
]  # fmt: skip
OURS = [
    "localhost", "localhost:8080", "LocalHost", "localhost.", "127.0.0.1", "127.0.0.1:8080",
    "10.1.2.3:8080", "[::1]", "[::1]:8080", "[fe80::1]:80", "[fe80::1%eth0]", "mq", "mq:8080", "",
]  # fmt: skip


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    return start_shared("--admin=127.0.0.1:0")


@pytest.fixture
def admin(server: Server) -> Iterator[Wire]:
    wire = Wire(server.admin_port)
    yield wire
    wire.close()


def ask(
    wire: Wire, method: str, target: str, body: bytes | None = None, host: str = "", /, **more: str
) -> WireAnswer:
    """Send a request with `Host: 127.0.0.1:PORT`, as a browser does, unless `host` is given."""
    own = f"127.0.0.1:{wire.socket.getpeername()[1]}"
    data = request_bytes(method, target, body, **more)
    wire.send(data.replace(b"Host: mq", f"Host: {host or own}".encode(), 1))
    return wire.answer(method)


@pytest.mark.parametrize("page", FOREIGN)
def test_a_page_of_another_site_publishes_takes_and_deletes_nothing(
    wire: Wire, queue: str, page: str
) -> None:
    """Neither what a form can send nor what a page can open, and no preflight lets more in."""
    message_id = wire.publish(queue, b"ours")

    for method, path, body in (
        ("POST", "/messages", b"theirs"),
        ("POST", "/messages?batch", b"{}"),
        ("GET", "/messages?max=1000&visibility=2592000", None),
        ("GET", "/messages?peek", None),
        ("DELETE", f"/messages/{message_id}", None),
        ("PUT", "", None),
        ("DELETE", "", None),
        ("GET", "", None),
        ("OPTIONS", "/messages", None),
    ):
        answer = ask(wire, method, f"/{queue}{path}", body, **FOREIGN[page])
        assert_problem(answer, 403, "foreign-page")
        assert not [name for name in answer.headers if name.startswith("access-control")]

    assert wire.count(queue) == (1, 0)
    assert wire.receive(queue).body == b"ours"


@pytest.mark.parametrize(
    "twice",
    [
        "Origin: http://127.0.0.1\r\nOrigin: http://evil.example",
        "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site",
    ],
)
def test_what_is_said_twice_must_be_right_both_times(wire: Wire, queue: str, twice: str) -> None:
    wire.send(f"DELETE /{queue} HTTP/1.1\r\nHost: 127.0.0.1\r\n{twice}\r\n\r\n".encode())

    assert_problem(wire.answer("DELETE"), 403, "foreign-page")


@pytest.mark.parametrize("host", STRANGERS)
def test_a_name_that_leads_here_is_not_served(
    wire: Wire, admin: Wire, queue: str, host: str
) -> None:
    """DNS rebinding gives the page and the server one origin."""
    own = {"origin": f"http://{host}", "sec_fetch_site": "same-origin"}

    for more in ({}, own):
        assert_problem(ask(wire, "DELETE", f"/{queue}", None, host, **more), 421, "unknown-host")
        for path in ("/queues", "/metrics", "/readyz"):
            answer = ask(admin, "GET", path, None, host, **more)
            assert_problem(answer, 421, "unknown-host", "--allowed-host")
    assert wire.request("GET", f"/{queue}").status == 200


@pytest.mark.parametrize("host", OURS)
def test_an_address_and_our_own_names_are_served(wire: Wire, admin: Wire, host: str) -> None:
    """Requests come by such names behind compose, from Prometheus, and from a probe of an
    address."""
    for line in (f"Host: {host}", f"host:{host}"):
        wire.send(f"PUT /orders HTTP/1.1\r\n{line}\r\n\r\n".encode())
        assert wire.answer("PUT").status in (200, 201)
        admin.send(f"GET /readyz HTTP/1.1\r\n{line}\r\n\r\n".encode())
        assert admin.answer().status == 200


@pytest.mark.parametrize("target", ["http://evil.example/", "HTTPS://u@127.0.0.1:1/"])
def test_a_target_that_names_another_server_is_refused(server: Server, target: str) -> None:
    """The absolute form says whom a request is for, whatever `Host` says (RFC 9112)."""
    for port, path in (
        (server.port, "orders"), (server.admin_port, "readyz"), (server.admin_port, "api/orders")
    ):  # fmt: skip
        wire = Wire(port)
        wire.send(f"GET {target}{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert_problem(wire.answer(), 421, "unknown-host")
        wire.close()


def test_a_target_that_names_this_server_is_served(wire: Wire, admin: Wire) -> None:
    for name in ("127.0.0.1", "LOCALHOST:8080", "[::1]:80"):
        wire.send(f"PUT http://{name}/orders HTTP/1.1\r\nHost: mq\r\n\r\n".encode())
        assert wire.answer("PUT").status in (200, 201)
        admin.send(f"GET http://{name}/readyz HTTP/1.1\r\nHost: mq\r\n\r\n".encode())
        assert admin.answer().status == 200


def test_only_a_client_of_http_1_0_is_served_without_host(connect: Connect, server: Server) -> None:
    old, new = connect(server), connect(server)
    old.send(b"PUT /orders HTTP/1.0\r\n\r\n")
    new.send(b"PUT /orders HTTP/1.1\r\n\r\n")

    assert old.answer("PUT").status in (200, 201)
    assert_problem(new.answer("PUT"), 400, "bad-http", "Host")


@pytest.mark.parametrize(
    "more",
    [
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "none", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"},
        {"origin": "http://{own}", "sec_fetch_site": "same-origin"},
        {"origin": "HTTP://{own}"},
        {"origin": "https://{own}"},
    ],
)
def test_a_page_of_this_very_address_is_served(
    wire: Wire, queue: str, more: dict[str, str]
) -> None:
    """Addresses that its user types are served too. With https there is a proxy in front."""
    own = f"127.0.0.1:{wire.socket.getpeername()[1]}"
    headers = {name: value.format(own=own) for name, value in more.items()}

    assert ask(wire, "POST", f"/{queue}/messages", b"body", **headers).status == 201


@pytest.mark.parametrize(("host", "origin"), [("localhost", "http://localhost:80"),
                                              ("mq:443", "https://mq"),
                                              ("[::1]:80", "http://[::1]")])  # fmt: skip
def test_the_usual_port_may_be_left_out(wire: Wire, queue: str, host: str, origin: str) -> None:
    assert ask(wire, "GET", f"/{queue}", None, host, origin=origin).status == 200


def test_a_link_opens_the_admin_listener_and_nothing_else_does(admin: Wire) -> None:
    opened = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}

    for path in ("/readyz", "/queues", "/metrics", "/openapi.json"):
        assert ask(admin, "GET", path, sec_fetch_dest="document", **opened).status == 200
    for more in (
        {**opened, "sec_fetch_dest": "iframe"},
        opened,
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "cors", "sec_fetch_dest": "empty"},
        {"sec_fetch_site": "same-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"},
        {**opened, "sec_fetch_dest": "document", "origin": "https://evil.example"},
    ):
        assert_problem(ask(admin, "GET", "/queues", **more), 403, "foreign-page")


def test_allowed_host_names_the_server(start_server: StartServer, connect: Connect) -> None:
    server = start_server("--allowed-host=mq.example.org,Queue", "--allowed-host=other")
    wire = connect(server)

    for host in ("mq.example.org", "MQ.example.org:443", "queue:8080", "other", "127.0.0.1"):
        assert ask(wire, "PUT", "/orders", None, host).status in (200, 201)
    for host in ("example.org", "a.mq.example.org", "queue.evil.example", "mq"):
        assert_problem(ask(wire, "PUT", "/orders", None, host), 421, "unknown-host")


def test_allowed_host_may_be_any(start_server: StartServer, connect: Connect) -> None:
    wire = connect(start_server("--allowed-host=*"))

    assert ask(wire, "PUT", "/orders", None, "evil.example").status == 201
    assert_problem(ask(wire, "PUT", "/orders", origin="http://evil.example"), 403, "foreign-page")


def test_the_name_of_address_is_the_servers(start_server: StartServer, connect: Connect) -> None:
    try:
        name = next(
            name
            for name in (socket.gethostname(), "ip6-localhost", "localhost.localdomain")
            if socket.gethostbyname(name).startswith("127.")
        )
    except (StopIteration, OSError):
        pytest.skip("no name but localhost leads to the loopback of this machine")
    wire = connect(start_server(f"--address={name}"))

    assert ask(wire, "PUT", "/orders", None, f"{name}:8080").status == 201


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_what_stands_for_every_address_is_no_name_unless_it_is_given_as_one(host: str) -> None:
    """Browsers do not say whose page asks there, although it leads to this machine."""
    wide = ServerConfig(address=host, admin=Address(host, 8081))
    head = BareHead(CIMultiDictProxy(CIMultiDict(Host="0.0.0.0:8080")))

    assert not origin_policy_of(wide).admits(head)
    assert origin_policy_of(replace(wide, allowed_hosts=("0.0.0.0",))).admits(head)


def test_over_a_unix_socket_any_name_will_do(start_server: StartServer, tmp_path: Path) -> None:
    """No name leads there, and programs write what they like."""
    path = tmp_path / "mq.sock"
    start_server(f"--socket={path}")
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(path))
        client.sendall(b"PUT http://any.example/orders HTTP/1.1\r\nHost: any.example\r\n\r\n")

        assert client.makefile("rb").readline() == b"HTTP/1.1 201 Created\r\n"


def test_a_name_that_will_do_on_a_unix_socket_does_not_do_elsewhere_when_it_is_known(
    start_server: StartServer, connect: Connect, tmp_path: Path
) -> None:
    path = tmp_path / "mq.sock"
    wire = connect(start_server(f"--socket={path}"))
    ask(wire, "PUT", "/orders", None)
    data = request_bytes("GET", "/orders/messages").replace(b"Host: mq", b"Host: any.example")
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(path))
        for _ in range(4):
            client.sendall(data)
            assert client.recv(4096).startswith(b"HTTP/1.1 204 No Content\r\n")

    wire.send(data)
    assert_problem(wire.answer(), 421, "unknown-host")


def test_a_page_is_refused_before_its_token_is_looked_at(
    start_server: StartServer, connect: Connect, tmp_path: Path
) -> None:
    tokens = make_token_file(tmp_path, "till read,write,admin * kT3vVt9xkq3mP2sYw8LrBg")
    server = start_server(f"--token-file={tokens}")

    for more in ({}, {"authorization": "Bearer kT3vVt9xkq3mP2sYw8LrBg"}):
        answer = ask(connect(server), "GET", "/orders", origin="https://evil.example", **more)
        assert_problem(answer, 403, "foreign-page")


def test_a_refused_body_does_not_hold_the_connection(connect: Connect, server: Server) -> None:
    wire = connect(server)
    queue = make_queue(wire)

    answer = ask(wire, "POST", f"/{queue}/messages", b"x" * 200_000, origin="null")

    assert_problem(answer, 403, "foreign-page")
    assert wire.request("GET", f"/{queue}").json()["ready"] == 0
