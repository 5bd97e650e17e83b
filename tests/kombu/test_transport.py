"""The transport: connecting, its event loop, forking."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kombu import Connection
from kombu.asynchronous import Hub

from mq.client import Client, NoAnswer, Unauthorized
from mq.kombu import MqTransport
from tests.support.certificates import make_certificate
from tests.support.consuming import Connect, Consumed, leased, publish
from tests.support.processes import Server, wait_until
from tests.support.proxy import LossyProxy

TOKEN = "writer-8wYs2Pm3qkx9tVv3TkgBrL"


def test_the_event_loop_of_a_worker_is_told_and_never_waits(
    connect: Connect, client: Client, queue: str
) -> None:
    connection, hub = connect(), Hub()
    publish(connection, queue, 1)
    consumed = Consumed(connection, queue)
    connection.transport.register_with_event_loop(connection.connection, hub)
    loop = hub.create_loop()

    def turn() -> bool:
        next(loop)
        return len(consumed.messages) == 2

    hub.call_soon(publish, connection, queue, 2)
    wait_until(turn)

    assert consumed.bodies() == [1, 2]
    connection.transport.unregister_from_event_loop(connection.connection, hub)
    hub.close()


def test_a_missing_server_is_reported_at_once() -> None:
    with pytest.raises(NoAnswer) as raised:
        Connection("mq://127.0.0.1:1").connect()

    assert isinstance(raised.value, MqTransport.connection_errors)


def test_connecting_goes_on_when_a_proxy_has_answered_in_the_place_of_the_server(
    server: Server,
) -> None:
    """It has a page for everything while its server is away."""
    proxy = LossyProxy(server.port, 0)
    proxy.instead = b"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>"
    proxy.losses = 1

    with Connection(proxy.url.replace("http", "mq")) as connection:
        connection.ensure_connection(max_retries=3, interval_start=0.01)

    assert proxy.lost == 1
    proxy.close()


def test_a_token_is_needed_and_enough_to_use_queues(
    start_server: Callable[..., Server], tmp_path: Path, queue: str
) -> None:
    """One that may write and not administrate."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"worker write {TOKEN}\nboss read,write,admin boss-{TOKEN}\n")
    tokens.chmod(0o600)
    server = start_server(f"--token-file={tokens}")
    host = server.url.removeprefix("http://")
    with Client(server.url, token=f"boss-{TOKEN}") as boss:
        boss.queue(queue).create()

    with pytest.raises(Unauthorized):
        Connection(f"mq://{host}").connect()
    for connection in (
        Connection(f"mq://:{TOKEN}@{host}"),
        Connection(f"mq://{host}", transport_options={"token": TOKEN}),
    ):
        with connection:
            publish(connection, queue, 1)
            consumed = Consumed(connection, queue)
            consumed.drain_count(1)
            consumed.messages[0].ack()


def test_tasks_go_over_tls_to_a_server_whose_issuer_is_given(
    start_server: Callable[..., Server], tmp_path: Path, queue: str
) -> None:
    pair = make_certificate(tmp_path, "localhost")
    server = start_server(*pair.flags())
    url = f"mq+https://127.0.0.1:{server.port}"

    with Connection(url, transport_options={"ca_file": str(pair.cert)}) as connection:
        publish(connection, queue, 1)
        consumed = Consumed(connection, queue)
        consumed.drain_count(1)


def test_a_forked_process_that_closes_its_parents_channel_releases_nothing(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect()
    publish(connection, queue, 1)
    consumed = Consumed(connection, queue)
    consumed.drain_count(1)

    child = os.fork()
    if child == 0:
        consumed.channel.close()
        connection.release()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

    assert leased(client, queue) == 1
    consumed.messages[0].ack()
    wait_until(lambda: leased(client, queue) == 0)


def test_the_real_kombu_is_not_hidden() -> None:
    """The name `kombu` leads to the real one even if both are imported, in either order."""
    program = "import kombu, mq.kombu, mq.kombu.channel; print(kombu.Connection.__module__)"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "kombu.connection\n"


def test_the_url_is_known_by_the_setting_broker_transport_alone(server: Server) -> None:
    """The program does not import `mq.kombu`."""
    url = server.url.replace("http", "mq")
    program = (
        "from celery import Celery\n"
        f"app = Celery('a', broker={url!r})\n"
        "app.conf.broker_transport = 'mq.kombu:MqTransport'\n"
        "with app.connection_for_write() as connection:\n"
        "    print(connection.connect().driver_type)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )

    assert (done.stdout, done.stderr) == ("mq\n", "")


def test_a_transport_that_was_made_before_a_fork_closes_in_the_child(
    client: Client, server: Server, queue: str
) -> None:
    """The child connects, and gives back what it has not acknowledged."""
    connection = Connection(server.url.replace("http", "mq"))
    assert connection.transport.driver_type == "mq"

    child = os.fork()
    if child == 0:
        publish(connection, queue, 1)
        consumed = Consumed(connection, queue)
        consumed.drain_count(1)
        connection.release()
        os._exit(0)

    assert os.waitpid(child, 0)[1] == 0
    assert client.queue(queue).counts()[1:4] == (1, 0, 0)
