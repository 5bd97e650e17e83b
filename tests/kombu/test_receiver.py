"""The receiver: what comes without asking, and what ends it."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from kombu import Connection, Consumer, Queue

from mq.client import Client, QueueNotFound
from tests.support.consuming import Connect, Consumed, publish, requests
from tests.support.processes import Server, wait_until
from tests.support.proxy import LossyProxy


def test_a_long_poll_brings_a_message_when_it_is_published(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect()
    publish(connection, queue)
    client.queue(queue).create()
    consumed = Consumed(connection, queue)

    client.queue(queue).publish(b"{}", content_type="application/json")
    consumed.drain_count(1)

    assert consumed.bodies() == [{}]


def test_an_empty_queue_is_asked_seldom(start_server: Callable[..., Server], queue: str) -> None:
    """A long poll is one request; the server counts those that it answered."""
    server = start_server("--admin=127.0.0.1:0")
    with Connection(server.url.replace("http", "mq")) as connection:
        with Client(server.url) as client:
            client.queue(queue).create()
        Consumed(connection, queue)
        before = time.monotonic()
        wait_until(lambda: time.monotonic() > before + 1)

        assert 0 < requests(server) < 20


def test_consumers_go_on_when_the_server_was_killed_and_started_again(
    start_server: Callable[..., Server], queue: str
) -> None:
    server = start_server()
    with Connection(server.url.replace("http", "mq")) as connection:
        publish(connection, queue, 1)
        consumed = Consumed(connection, queue)
        consumed.drain_count(1)
        server.kill()
        start_server(f"--port={server.port}")

        publish(connection, queue, 2)
        consumed.drain_count(2)

        assert consumed.bodies() == [1, 2]


def test_consumers_go_on_when_a_proxy_has_answered_in_the_place_of_the_server(
    server: Server, client: Client, queue: str
) -> None:
    """It has the answer of a page for everything while its server is away."""
    proxy = LossyProxy(server.port, 0)
    proxy.instead = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"
    client.queue(queue).create()
    with Connection(proxy.url.replace("http", "mq")) as connection:
        consumed = Consumed(connection, queue)
        proxy.losses = 1
        publish_plain(client, queue, 1)
        wait_until(lambda: proxy.lost)

        publish_plain(client, queue, 2)
        consumed.drain_count(1)

        assert consumed.bodies() == [2]
    proxy.close()


def publish_plain(client: Client, queue: str, number: int) -> None:
    client.queue(queue).publish(str(number), content_type="application/json")


def test_a_queue_that_is_deleted_is_an_error_of_the_connection(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect()
    client.queue(queue).create()
    Consumed(connection, queue)

    client.queue(queue).delete()

    with pytest.raises(QueueNotFound):
        connection.drain_events(timeout=30)
    assert issubclass(QueueNotFound, connection.connection_errors)


def test_a_thread_that_cannot_be_started_is_started_by_the_next_consumer(
    connect: Connect, client: Client, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connect()
    client.queue(queue).create()
    publish_plain(client, queue, 1)
    start = Thread.start

    def refuse(thread: Thread) -> None:
        if thread.name == "mq-receive":
            raise RuntimeError("can't start new thread")
        start(thread)

    channel, got = connection.channel(), list[Any]()
    with monkeypatch.context() as limited:
        limited.setattr(Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            Consumer(channel, [Queue(queue)], on_message=got.append).consume()

    Consumer(channel, [Queue(queue)], on_message=got.append).consume()
    connection.drain_events(timeout=30)

    assert [each.decode() for each in got] == [1]
    channel.close()
