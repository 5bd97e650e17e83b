"""The keeper: leases are renewed, and settled in the order in which that was asked for."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from kombu import Connection

from mq.client import Client
from mq.kombu import keeper, receiver
from tests.support.consuming import Connect, Consumed, leased, publish, ready
from tests.support.faces import wait_for_renewals
from tests.support.processes import Server, wait_until
from tests.support.proxy import LossyProxy


def test_a_lease_is_renewed_while_its_task_runs(
    connect: Connect, hasty_server: Server, queue: str
) -> None:
    """A mover gives what is not renewed to the next. Four renewals take longer than the lease."""
    connection = connect(hasty_server.url.replace("http", "mq"), visibility_timeout=1)
    publish(connection, queue, 1, 2)
    consumed = Consumed(connection, queue)
    consumed.drain_count(2)

    wait_for_renewals(consumed.held(0), 4)
    for message in consumed.messages:
        message.ack()

    with Client(hasty_server.url) as client:
        consumed.drain(lambda: client.queue(queue).counts()[1:4] == (0, 0, 0))
    assert consumed.bodies() == [1, 2]


def test_a_message_that_was_taken_away_is_reported_and_not_removed(
    connect: Connect, client: Client, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    connection = connect()
    publish(connection, queue, 1)
    consumed = Consumed(connection, queue, prefetch=1)
    consumed.drain_count(1)
    [stolen_id] = [each.partition(":")[0] for each in [consumed.messages[0].delivery_tag]]
    context = client.queue(queue)
    # A person takes the message away from its consumer.
    release_by_force(client, queue, stolen_id)
    again = context.receive(wait=5)
    assert again is not None

    with caplog.at_level(logging.WARNING):
        consumed.messages[0].ack()
        wait_until(lambda: "was done and not removed" in caplog.text)

    again.ack()


def test_a_message_that_was_taken_away_is_not_made_a_dead_letter(
    connect: Connect, client: Client, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    connection = connect()
    publish(connection, queue, 1)
    consumed = Consumed(connection, queue, prefetch=1)
    consumed.drain_count(1)
    release_by_force(client, queue, consumed.messages[0].delivery_tag.partition(":")[0])
    again = client.queue(queue).receive(wait=5)
    assert again is not None

    with caplog.at_level(logging.WARNING):
        consumed.messages[0].reject()
        wait_until(lambda: "was not made a dead letter" in caplog.text)

    again.ack()
    assert client.queue(f"{queue}.dead").peek() == []


def test_a_message_that_came_back_is_dead_under_its_own_id(
    connect: Connect, client: Client, queue: str
) -> None:
    """It is rejected again after a redrive; nothing is left of the first time."""
    connection = connect()
    publish(connection, queue, 1)
    consumed = Consumed(connection, queue)
    consumed.drain_count(1)
    consumed.messages[0].reject()
    wait_until(lambda: leased(client, queue) == 0)

    assert client.queue(queue).move(f"{queue}.dead") == 1
    consumed.drain_count(2)
    consumed.messages[1].reject()

    wait_until(lambda: leased(client, queue) == 0)
    assert client.queue(f"{queue}.dead").counts()[1:4] == (1, 0, 0)


@pytest.fixture
def folder_without_attributes(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounts need root")
    point = tmp_path / "ramfs"
    point.mkdir()
    subprocess.run(["mount", "-t", "ramfs", "none", str(point)], check=True)
    yield point
    subprocess.run(["umount", "--lazy", str(point)], check=True)


def test_where_no_reason_can_be_kept_a_rejected_message_is_moved_without_one(
    connect: Connect,
    start_server: Callable[..., Server],
    folder_without_attributes: Path,
    queue: str,
) -> None:
    server = start_server(root=folder_without_attributes / "root")
    connection = connect(server.url.replace("http", "mq"))
    publish(connection, queue, 1)
    consumed = Consumed(connection, queue)
    consumed.drain_count(1)

    consumed.messages[0].reject()

    with Client(server.url) as mq:
        wait_until(lambda: mq.queue(queue).counts()[1:4] == (0, 0, 0))
        assert ready(mq, f"{queue}.dead") == 1


def release_by_force(client: Client, queue: str, message_id: str) -> None:
    address = client._session.address
    connection = HTTPConnection(address.host, address.port)
    connection.request("GET", f"/{queue}/messages?id={message_id}&visibility=0")
    assert connection.getresponse().status == 204
    connection.close()


def test_many_acknowledgements_are_few_requests(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect()
    publish(connection, queue, *range(50))
    consumed = Consumed(connection, queue)
    consumed.drain_count(50)

    for message in consumed.messages:
        message.ack()

    wait_until(lambda: client.queue(queue).counts()[1:4] == (0, 0, 0))


def test_closing_ends_though_the_server_is_gone(
    connect: Connect, start_server: Callable[..., Server], queue: str
) -> None:
    server = start_server()
    connection = connect(server.url.replace("http", "mq"), retry_seconds=0)
    publish(connection, queue, 1)
    consumed = Consumed(connection, queue)
    consumed.drain_count(1)
    server.kill()

    consumed.channel.close()

    assert consumed.channel.closed


def test_what_is_not_settled_in_time_is_reported(
    connect: Connect,
    start_server: Callable[..., Server],
    queue: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The server may be slow, and there may be hundreds of messages."""
    for module in (keeper, receiver):
        monkeypatch.setattr(module, "WORKER_STOP_SECONDS", 0.2)
    server = start_server()
    connection = connect(server.url.replace("http", "mq"))
    publish(connection, queue, 1)
    consumed = Consumed(connection, queue)
    consumed.drain_count(1)
    server.popen.send_signal(signal.SIGSTOP)

    consumed.channel.close()

    server.popen.send_signal(signal.SIGCONT)
    assert "not all messages were settled within 0.2 s" in caplog.text


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_task_that_was_done_and_cannot_be_removed_is_told_and_leaves_its_room(
    server: Server, client: Client, queue: str, caplog: pytest.LogCaptureFixture, is_answered: bool
) -> None:
    proxy = LossyProxy(server.port, 0)
    with Connection(
        proxy.url.replace("http", "mq"), transport_options={"retry_seconds": 0}
    ) as connection:
        publish(connection, queue, 1)
        consumed = Consumed(connection, queue, prefetch=1)
        consumed.drain_count(1)

        if is_answered:
            client.queue(queue).purge()
        else:
            proxy.losses = 1000
        consumed.messages[0].ack()

        wait_until(lambda: "was done and not removed, it may come again" in caplog.text)
        proxy.losses = 0
        publish(connection, queue, 2)
        consumed.drain_count(2)
    proxy.close()


def test_what_is_held_by_two_queues_is_acknowledged_in_each(
    connect: Connect, client: Client, queue: str
) -> None:
    connection, names = connect(), (f"{queue}-a", f"{queue}-b")
    for name in names:
        publish(connection, name, 1)
    consumed = Consumed(connection, *names)
    consumed.drain_count(2)

    for message in consumed.messages:
        message.ack()

    wait_until(lambda: sum(leased(client, name) for name in names) == 0)


def test_what_the_system_has_no_thread_for_now_is_settled_with_the_next_order(
    connect: Connect, client: Client, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connect()
    publish(connection, queue, 1, 2)
    consumed = Consumed(connection, queue)
    consumed.drain_count(2)
    start, refused = threading.Thread.start, list[threading.Thread]()

    def refuse_one(thread: threading.Thread) -> None:
        if thread.name == "mq-keeper" and not refused:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_one)
    for message in consumed.messages:
        message.ack()

    wait_until(lambda: client.queue(queue).counts()[1:4] == (0, 0, 0))
    assert len(refused) == 1


def test_what_a_proxy_has_answered_in_the_place_of_the_server_is_settled_all_the_same(
    server: Server, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It has the answer of a page for everything while its server is away."""
    proxy = LossyProxy(server.port, 0)
    proxy.instead = b"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>"
    with Connection(proxy.url.replace("http", "mq")) as connection:
        publish(connection, queue, 1, 2)
        consumed = Consumed(connection, queue, prefetch=1)
        consumed.drain_count(1)

        proxy.losses = 1
        consumed.messages[0].ack()
        # There is room for the next one once the first is settled.
        consumed.drain_count(2)

        assert proxy.lost == 1
        assert "not removed" not in caplog.text
        consumed.messages[1].ack()
    proxy.close()
