"""Tokens, TLS and unix sockets."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from mq.client import Client, Forbidden, Queue, Refused, Unauthorized, UnexpectedAnswer
from tests.support.faces import Running, new_queue, receive_now
from tests.support.processes import Server, wait_until
from tests.support.token_files import make_token_file

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
    return make_token_file(
        tmp_path_factory.mktemp("tokens"),
        f"writer read,write,admin {TOKEN}",
        f"reader read {READER}",
    )


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


def test_the_servers_file_of_tokens_is_no_token_of_a_client(
    server: Server,
    connect_client: Callable[..., Client],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """MQ_TOKEN_FILE names it to a server that is started in the same environment."""
    (tmp_path / "tokens").write_text(f"clerk write {TOKEN}\n")
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setenv("MQ_TOKEN_FILE", str(tmp_path / "tokens"))
    mq = connect_client(server.url)
    with pytest.raises(Unauthorized):
        mq.queue("orders").counts()

    monkeypatch.setenv("MQ_CLIENT_TOKEN_FILE", str(tmp_path / "token"))

    assert_works(connect_client(server.url))


def test_calls_and_workers_outlive_a_change_of_the_token(
    start_server: Callable[..., Server], connect_client: Callable[..., Client], tmp_path: Path,
    work: Callable[..., Running],
) -> None:  # fmt: skip
    """Eight threads and a worker, with several requests under way at each change; the file of the
    token is removed, then empty, before it holds the next one."""
    tokens, own = tmp_path / "tokens", tmp_path / "token"
    names = [f"rotated-{number}-kT3vVt9xkq3mP2sYw8Lr" for number in range(12)]
    own.write_text(names[0])
    write_tokens(tokens, names[0])
    server = start_server(f"--token-file={tokens}")
    mq = connect_client(server.url, token_file=own)
    orders = new_queue(mq)
    errors: list[BaseException] = []
    published: list[str] = []
    handled: list[str] = []
    stop = threading.Event()

    def publish(producer: int) -> None:
        try:
            for number in itertools.count():
                if stop.is_set():
                    break
                orders.publish(f"{producer}-{number}")
                published.append(f"{producer}-{number}")
        except BaseException as error:
            errors.append(error)

    producers = [threading.Thread(target=publish, args=(number,)) for number in range(8)]
    for producer in producers:
        producer.start()
    running = work(orders, lambda message: handled.append(message.text()), concurrency=3)
    for name in names[1:]:
        enough = len(published) + 20
        wait_until(lambda: len(published) >= enough or errors, 100)
        own.unlink()
        own.touch()
        write_tokens(tokens, name)
        server.popen.send_signal(signal.SIGHUP)
        wait_until(lambda: refuses(server, old_of(names, name)), 100)
        own.write_text(name)
    stop.set()
    for producer in producers:
        producer.join()
    wait_until(lambda: len(set(handled)) >= len(published) or running.error, 60)
    running.stop()

    assert errors == []
    assert running.error is None
    assert sorted(set(handled)) == sorted(published)


def old_of(names: list[str], name: str) -> str:
    return names[names.index(name) - 1]


def write_tokens(path: Path, token: str) -> None:
    path.touch(mode=0o600)
    path.write_text(f"app read,write,admin {token}\n")


def refuses(server: Server, token: str) -> bool:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    with closing(connection):
        connection.request("GET", "/nowhere", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status == 401


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
        "http://h/gr\u00fcn",
        "http://h/a b",
        "http://h/\x7f",
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
