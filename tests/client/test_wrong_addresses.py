"""Addresses where no server of MQ is, or where others can listen in."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from mq.client import Client, NoAnswer, UnexpectedAnswer
from tests.support.faces import new_queue
from tests.support.processes import Server, wait_until
from tests.support.proxy import LossyProxy


@pytest.fixture
def nobody() -> Iterator[str]:
    """The address of a port that nobody listens on, and that nobody else is given."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def test_a_port_where_nobody_listens_is_named_at_the_first_retry(
    nobody: str, connect_client: Callable[..., Client], caplog: pytest.LogCaptureFixture
) -> None:
    orders = connect_client(nobody).queue("orders")
    publishing = threading.Thread(target=publish_in_vain, args=(orders,), daemon=True)

    publishing.start()

    wait_until(lambda: f"{nobody} does not answer: Connection refused" in caplog.text.replace(
        "Connect call failed", "Connection refused"))  # fmt: skip
    assert publishing.is_alive()
    record = caplog.records[0]
    assert (record.name, record.levelno) == ("mq.client", logging.WARNING)
    assert "trying again for up to 60 s" in record.getMessage()


def publish_in_vain(orders: object) -> None:
    with suppress(Exception):
        orders.publish("one")  # type: ignore[attr-defined]


def test_one_request_says_once_that_it_is_tried_again(
    nobody: str, connect_client: Callable[..., Client], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(NoAnswer):
        connect_client(nobody, retry_seconds=2).queue("orders").publish("one")

    assert len(caplog.records) == 1


def test_https_to_a_plain_port_is_said_at_once(
    server: Server, connect_client: Callable[..., Client]
) -> None:
    url = server.url.replace("http:", "https:")

    with pytest.raises(UnexpectedAnswer, match="does not speak TLS; write http://") as caught:
        connect_client(url, retry_seconds=600).queue("orders").publish("one")
    assert url in str(caught.value)


@pytest.fixture
def talk() -> Iterator[Callable[[bytes], int]]:
    """`talk(b"...")` is a port where everyone is told that, whatever they say."""
    listeners = []

    def start(said: bytes) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client, suppress(OSError):
                        client.recv(65536)
                        client.sendall(said)

        threading.Thread(target=serve, daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize(
    "said", [b"SSH-2.0-OpenSSH_9.7\r\n", b"220 mail.example.org ESMTP\r\n", b"-ERR unknown\r\n"]
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_what_speaks_something_else_is_said_at_once(
    talk: Callable[[bytes], int], connect_client: Callable[..., Client], scheme: str, said: bytes
) -> None:
    mq = connect_client(f"{scheme}://127.0.0.1:{talk(said)}", retry_seconds=600)

    with pytest.raises(UnexpectedAnswer, match=r"does not speak (HTTP|TLS)"):
        mq.queue("orders").publish("one")


def test_a_worker_at_a_wrong_port_ends_with_the_error(
    server: Server, connect_client: Callable[..., Client], kind: str
) -> None:
    async def handle_async(message: object) -> None: ...

    def handle(message: object) -> None: ...

    mq = connect_client(server.url.replace("http:", "https:"))
    worker = mq.queue("orders").worker(handle if kind == "blocking" else handle_async)

    with pytest.raises(UnexpectedAnswer):
        worker.run(signals=())


def own_address() -> str:
    """One of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(sock.getsockname()[0])


@pytest.fixture
def from_outside(server: Server) -> Iterator[LossyProxy]:
    """The way to the server over another address of this machine."""
    proxy = LossyProxy(server.port, 0, own_address())
    yield proxy
    proxy.close()


def test_a_token_that_goes_over_plain_http_to_another_host_is_warned_of_once(
    from_outside: LossyProxy,
    connect_client: Callable[..., Client],
    caplog: pytest.LogCaptureFixture,
) -> None:
    new_queue(connect_client(from_outside.url))
    mq = connect_client(from_outside.url, token="secret")
    assert caplog.records == []

    new_queue(mq).publish("one")

    assert [record.getMessage() for record in caplog.records] == [
        f"the token goes to {own_address()} over plain http, where anyone on the way can read it; "
        "use https"
    ]


def test_a_token_that_stays_on_this_machine_is_not_warned_of(
    start_server: Callable[..., Server],
    connect_client: Callable[..., Client],
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = start_server("--allowed-host=*")
    for host in ("127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"):
        new_queue(connect_client(f"http://{host}:{server.port}", token="secret")).publish("one")

    assert caplog.records == []
