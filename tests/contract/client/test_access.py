"""Tokens, TLS and unix sockets."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.client import Client, Forbidden, Queue, Refused, Unauthorized, UnexpectedAnswer
from tests.conftest import Server
from tests.contract.client.conftest import new_queue, receive_now

TOKEN = "writer-8wYs2Pm3qkx9tVv3TkgBrL"
READER = "reader-kT3vVt9xkq3mP2sYw8LrBg"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for this machine that nobody else has signed, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing: install the package openssl")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30",
         "-keyout", str(key), "-out", str(cert), "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's."""
    path = tmp_path_factory.mktemp("tokens") / "tokens"
    path.touch(mode=0o600)
    path.write_text(f"writer read,write,admin {TOKEN}\nreader read {READER}\n")
    return path


@pytest.fixture(scope="module")
def server(start_shared: Callable[..., Server], token_file: Path) -> Server:
    return start_shared(f"--token-file={token_file}")


def assert_works(mq: Client) -> Queue:
    orders = new_queue(mq)
    orders.publish("one")
    with receive_now(orders) as message:
        assert message.text() == "one"
    return orders


def test_a_token_lets_in_and_another_one_less_far(
    server: Server, connect_client: Callable[..., Client]
) -> None:
    orders = assert_works(connect_client(server.url, token=TOKEN))

    with pytest.raises(Unauthorized) as unauthorized:
        connect_client(server.url).queue(orders.name).counts()
    reader = connect_client(server.url, token=READER).queue(orders.name)
    assert reader.counts().ready == 0
    with pytest.raises(Forbidden) as forbidden:
        reader.publish("two")

    for caught, status in ((unauthorized, 401), (forbidden, 403)):
        assert caught.value.problem is not None
        assert caught.value.problem.status == status


def test_a_token_is_read_from_a_file_and_read_again_when_it_is_refused(
    server: Server,
    connect_client: Callable[..., Client],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    assert_works(connect_client(server.url, token_file=path))
    monkeypatch.setenv("MQ_TOKEN_FILE", str(path))
    monkeypatch.setenv("MQ_URL", server.url)
    orders = assert_works(connect_client())

    path.write_text("old-and-revoked")
    mq = connect_client()
    with pytest.raises(Unauthorized):
        mq.queue(orders.name).counts()
    path.write_text(TOKEN)

    assert mq.queue(orders.name).counts().ready == 0


def test_a_file_of_a_servers_tokens_is_no_token(token_file: Path) -> None:
    with pytest.raises(ValueError, match="one token and nothing else") as caught:
        Client(token_file=token_file)
    assert TOKEN not in str(caught.value)
    with pytest.raises(ValueError, match="choose one"):
        Client(token=TOKEN, token_file=token_file)
    assert TOKEN not in repr(Client(token=TOKEN))


def test_tls_is_spoken_with_who_is_trusted(
    start_server: Callable[..., Server],
    connect_client: Callable[..., Client],
    certificate: tuple[Path, Path],
) -> None:
    cert, key = certificate
    server = start_server(f"--cert={cert}", f"--key={key}")
    url = server.url.replace("http:", "https:")

    orders = assert_works(connect_client(url, ca_file=cert))
    assert_works(connect_client(url.replace("127.0.0.1", "localhost"), ca_file=cert))

    with pytest.raises(UnexpectedAnswer, match="not trusted"):
        connect_client(url).queue(orders.name).counts()


@pytest.fixture(scope="module")
def socket_path(
    start_shared: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """That of a server which asks for no token."""
    path = tmp_path_factory.mktemp("socket") / "mq.sock"
    start_shared(f"--socket={path}")
    return path


@pytest.mark.parametrize("form", ["unix:{}", "http+unix://{quoted}", "socket"])
def test_a_unix_socket_is_as_good_as_a_port(
    socket_path: Path, connect_client: Callable[..., Client], form: str
) -> None:
    if form == "socket":
        assert_works(connect_client(socket=socket_path))
    else:
        quoted = str(socket_path).replace("/", "%2F")
        assert_works(connect_client(form.format(socket_path, quoted=quoted)))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8080",
        "ftp://localhost",
        "http://",
        "http://h:x",
        "http://h?q",
        "http://u@h",
        "http://no host",
    ],
)
def test_what_is_no_address_of_a_server_is_refused_here(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|address"):
        Client(url)


def test_a_path_before_the_queues_is_kept(
    server: Server, connect_client: Callable[..., Client]
) -> None:
    mq = connect_client(f"{server.url}/before/", token=TOKEN)

    with pytest.raises(Refused) as caught:
        mq.queue("orders").publish("one")
    assert caught.value.problem is not None
    assert caught.value.problem.type == "urn:mq:problem:unknown-path"


def test_a_client_in_a_forked_process_has_connections_and_ids_of_its_own(
    start_server: Callable[..., Server],
) -> None:
    with Client(start_server().url) as mq:
        orders = new_queue(mq)
        pids = []
        for number in range(4):
            pid = os.fork()
            if pid == 0:
                try:
                    for part in range(5):
                        orders.publish(f"{number}-{part}")
                finally:
                    os._exit(0)
            pids.append(pid)
        for pid in pids:
            os.waitpid(pid, 0)

        found = orders.receive_many(100)
    assert len({message.id for message in found}) == len(found) == 20
    assert len({message.text() for message in found}) == 20
