"""TLS on a real socket: what is spoken, what is not, and how certificates are changed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from mq.daemon.tls import Certificate
from mq.errors import ExitCode, StartRefused
from mq.web.connections import handshakes
from mq.web.connections.http_server import HttpServer
from tests.support.certificates import Pair, make_certificate
from tests.support.processes import Server, wait_until
from tests.support.refusals import start
from tests.support.token_files import make_token_file
from tests.support.wire import request_bytes

HANDSHAKE_RECORD = b"\x16"
"""What a server's hello begins with. A refusal begins with another byte (RFC 8446, section 5.1)."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_certificate(tmp_path_factory.mktemp("tls"), "first")


@pytest.fixture(scope="module")
def server(start_shared: Callable[..., Server], pair: Pair) -> Server:
    return start_shared(*pair.flags(), "--admin=127.0.0.1:0")


def trusting(pair: Pair) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(pair.cert))


def connect_tls(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=10)
    return context.wrap_socket(plain, server_hostname="localhost")


def ask(port: int, context: ssl.SSLContext, data: bytes) -> bytes:
    """The status line of the answer."""
    with connect_tls(port, context) as secured:
        secured.sendall(data)
        return secured.makefile("rb").readline().rstrip()


def test_api_and_admin_speak_tls(server: Server, pair: Pair) -> None:
    context = trusting(pair)

    put, get = request_bytes("PUT", "/orders"), request_bytes("GET", "/readyz")

    assert ask(server.port, context, put) == b"HTTP/1.1 201 Created"
    assert ask(server.admin_port, context, get) == b"HTTP/1.1 200 OK"
    assert f"event=listening url=https://127.0.0.1:{server.port}" in server.log()


def test_a_large_body_goes_both_ways(server: Server, pair: Pair) -> None:
    body = os.urandom(1_000_000)
    context = trusting(pair)
    ask(server.port, context, request_bytes("PUT", "/large"))

    sent = ask(server.port, context, request_bytes("POST", "/large/messages", body))
    with connect_tls(server.port, context) as secured:
        secured.sendall(request_bytes("GET", "/large/messages", connection="close"))
        received = secured.makefile("rb").read()

    assert sent == b"HTTP/1.1 201 Created"
    assert received.partition(b"\r\n\r\n")[2] == body


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_today_are_spoken(
    server: Server, pair: Pair, version: ssl.TLSVersion
) -> None:
    context = trusting(pair)
    context.minimum_version = context.maximum_version = version

    with connect_tls(server.port, context) as secured:
        assert secured.version() == version.name.replace("_", ".")
        cipher = secured.cipher()
        assert cipher is not None
        assert "GCM" in cipher[0] or "CHACHA20" in cipher[0]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("name", ["TLSv1", "TLSv1_1"])
def test_older_versions_are_not_spoken(server: Server, pair: Pair, name: str) -> None:
    context = trusting(pair)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion[name]

    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect_tls(server.port, context)


def test_plain_http_is_closed_and_nobody_else_suffers(server: Server, pair: Pair) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain:
        plain.sendall(request_bytes("GET", "/orders"))
        try:
            answer = plain.recv(100)
        except ConnectionError:
            answer = b""

    assert not answer.startswith(b"HTTP/")
    assert ask(server.port, trusting(pair), request_bytes("GET", "/a%2Fb")).startswith(
        b"HTTP/1.1 400"
    )
    assert "Traceback" not in server.log()


def test_a_name_that_no_server_can_have_is_passed_over(server: Server) -> None:
    """What a stranger asks for by such a name is not in the log either."""
    name, to_server = b"mq.example.org", ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), to_server, False, name.decode())
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    hello = to_server.read().replace(name, b"\xff" * len(name))

    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as strange:
        strange.sendall(hello)
        answer = strange.recv(1)

    assert answer == HANDSHAKE_RECORD
    assert "Traceback" not in server.log()


def test_certificate_is_read_again_on_sighup(
    start_server: Callable[..., Server], pair: Pair, tmp_path: Path
) -> None:
    """Connections that are open stay; what is not in order changes nothing."""
    other = make_certificate(tmp_path, "second")
    used = Pair(tmp_path / "used.pem", tmp_path / "used.key")
    pair.copy_to(used)
    server = start_server(*used.flags())
    get = request_bytes("GET", "/absent")
    with connect_tls(server.port, trusting(pair)) as opened:
        other.copy_to(used)
        os.kill(server.popen.pid, signal.SIGHUP)
        wait_until(lambda: "event=reloaded" in server.log())

        assert ask(server.port, trusting(other), get).startswith(b"HTTP/1.1 404")
        with pytest.raises(ssl.SSLCertVerificationError):
            connect_tls(server.port, trusting(pair))
        opened.sendall(get)
        assert opened.recv(1000).startswith(b"HTTP/1.1 404")

    used.key.write_text("no key")
    used.cert.write_bytes(pair.cert.read_bytes())
    os.kill(server.popen.pid, signal.SIGHUP)
    wait_until(lambda: "not reloaded; the old one stays" in server.log())

    assert ask(server.port, trusting(other), get).startswith(b"HTTP/1.1 404")
    assert server.log().count("event=reloaded") == 1


def test_what_is_in_order_is_reloaded_beside_what_is_not(
    start_server: Callable[..., Server], pair: Pair, tmp_path: Path
) -> None:
    """The log says of each which it was."""
    used = Pair(tmp_path / "used.pem", tmp_path / "used.key")
    pair.copy_to(used)
    tokens = make_token_file(tmp_path, "a read * kT3vVt9xkq3mP2sYw8LrBg")
    server = start_server(*used.flags(), f"--token-file={tokens}")

    tokens.write_text("a read")
    other = make_certificate(tmp_path, "second")
    other.copy_to(used)
    os.kill(server.popen.pid, signal.SIGHUP)
    wait_until(lambda: "event=reloaded what=certificate" in server.log())

    get = request_bytes("GET", "/absent", None, authorization="Bearer kT3vVt9xkq3mP2sYw8LrBg")
    assert ask(server.port, trusting(other), get).startswith(b"HTTP/1.1 404")
    assert "old one stays" in server.log()
    assert "what=tokens" in server.log()
    assert server.log().count("event=reloaded") == 1


def test_a_certificate_that_changes_while_it_is_read_again_is_whole_or_the_old_one(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is read once: what came after that is the next SIGHUP's business."""
    used = Pair(tmp_path / "used.pem", tmp_path / "used.key")
    pair.copy_to(used)
    certificate = Certificate(used.cert, used.key)
    other = make_certificate(tmp_path, "second")
    load = ssl.SSLContext.load_cert_chain

    def load_and_change(context: ssl.SSLContext, *arguments: Any) -> None:
        load(context, *arguments)
        used.key.write_text("half a key")

    other.copy_to(used)
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load_and_change)
    certificate.reload()

    assert shake_hands(certificate.current(), trusting(other)) == other.cert.read_text()
    with pytest.raises(StartRefused, match=str(used.key)):
        certificate.reload()
    assert shake_hands(certificate.current(), trusting(other)) == other.cert.read_text()


def shake_hands(ours: ssl.SSLContext, theirs: ssl.SSLContext) -> str:
    """The certificate that the client was shown, in PEM; no name is asked for."""
    theirs.check_hostname = False
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = theirs.wrap_bio(to_client, to_server)
    server = ours.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    shown = client.getpeercert(binary_form=True)
    assert shown is not None
    return ssl.DER_cert_to_PEM_cert(shown)


@pytest.mark.parametrize("kind", ["cert", "key"])
def test_a_pipe_in_place_of_a_file_holds_up_nothing(pair: Pair, tmp_path: Path, kind: str) -> None:
    used = Pair(tmp_path / "used.pem", tmp_path / "used.key")
    pair.copy_to(used)
    certificate = Certificate(used.cert, used.key)
    path = getattr(used, kind)
    path.unlink()
    os.mkfifo(path)

    with pytest.raises(StartRefused, match="not a regular file"):
        certificate.reload()


def test_refusals_of_start_name_the_file(tmp_path: Path, pair: Pair) -> None:
    other = make_certificate(tmp_path, "other")
    secret = make_certificate(tmp_path, "secret", "-passout", "pass:word")
    nothing, of_other_kind = tmp_path / "nothing", tmp_path / "ed25519.key"
    subprocess.run(
        ["openssl", "genpkey", "-algorithm", "ed25519", "-out", of_other_kind], check=True
    )
    root = f"--root={tmp_path / 'root'}"

    for cert, key, why in (
        (pair.cert, nothing, "No such file or directory"),
        (pair.cert, other.key, "the key is not that of the certificate"),
        (pair.cert, of_other_kind, "the key is not that of the certificate"),
        (secret.cert, secret.key, "password"),
        (pair.key, pair.key, f"{pair.key} has no certificate in PEM"),
        (pair.cert, pair.cert, f"{pair.cert} has no private key in PEM"),
    ):
        refusal = start("mq", root, "--port=0", "--admin=", f"--cert={cert}", f"--key={key}")
        assert refusal.exit_code == ExitCode.USAGE
        assert why in refusal.line
    refusal = start("mq", root, "--port=0", "--admin=", f"--cert={pair.cert}")
    assert "--cert and --key belong together" in refusal.line


def test_a_key_that_others_may_read_is_reported(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    pair = make_certificate(tmp_path, "open")
    pair.key.chmod(0o644)

    server = start_server(*pair.flags())

    assert "key may be read by others" in server.log()


async def test_a_system_that_accepts_no_connection_is_reported_once(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "_ACCEPT_PAUSE_SECONDS", 0)
    certificate = Certificate(pair.cert, pair.key)
    deaf = socket.socket()  # It does not listen, so each try to accept fails.
    deaf.setblocking(False)

    with capture_logs() as logged:
        secure = handshakes.SecureServer(deaf, HttpServer(answer_nothing), certificate.current)
        for _ in range(20):
            await asyncio.sleep(0)
        secure.close()

    assert [each["event"] for each in logged] == ["no connection accepted"]


async def answer_nothing(request: web.BaseRequest) -> web.Response:
    raise AssertionError("nobody asks")
