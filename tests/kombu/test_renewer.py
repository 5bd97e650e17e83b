"""Leases are renewed, whatever becomes of other requests."""

from __future__ import annotations

import logging
import threading
import time
from datetime import UTC, datetime
from typing import cast

import pytest

from mq.client import Client, Message
from mq.client.blocking.session import Session
from mq.client.messages import Delivery
from mq.kombu.renewer import Renewer
from mq.names import MessageId, QueueName
from tests.support.consuming import Connect, Consumed, leased, publish, ready
from tests.support.faces import wait_for_renewals
from tests.support.processes import Server, wait_until
from tests.support.proxy import LossyProxy


def test_a_renewal_that_the_server_does_not_answer_costs_no_lease(
    connect: Connect, server: Server, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Another program may answer it in place of the server."""
    proxies = [LossyProxy(server.port, 0) for _ in range(2)]
    proxies[1].instead = b"220 mail.example.org\r\n"
    messages = []
    for number, proxy in enumerate(proxies):
        url = proxy.url.replace("http", "mq")
        connection = connect(url, retry_seconds=0, visibility_timeout=6)
        publish(connection, f"{queue}-{number}", 1)
        consumed = Consumed(connection, f"{queue}-{number}", prefetch=1)
        consumed.drain_count(1)
        messages.append(consumed.held(0))
        proxy.losses = 1
    wait_until(lambda: [proxy.lost for proxy in proxies] == [1, 1])

    for message in messages:
        wait_for_renewals(message, 1)
    assert "is lost" not in caplog.text
    for proxy in proxies:
        proxy.close()


def test_leases_are_renewed_while_another_message_cannot_be_settled(
    connect: Connect, client: Client, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The dead letters are full, so rejecting is answered 503 and tried again."""
    dead = client.queue(f"{queue}.dead")
    dead.create({"max-messages": 1})
    dead.publish("old")
    connection = connect(visibility_timeout=1)
    publish(connection, queue, 1, 2)
    consumed = Consumed(connection, queue)
    consumed.drain_count(2)
    other = consumed.held(1)

    with caplog.at_level(logging.WARNING, "mq.client"):
        consumed.messages[0].reject()
        wait_until(lambda: "trying again" in caplog.text)

    wait_for_renewals(other, 4)
    assert not other.is_lost
    dead.purge()


def test_a_message_whose_lease_was_lost_before_its_turn_is_told_and_not_delivered(
    connect: Connect, client: Client, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    connection = connect(visibility_timeout=1)
    publish(connection, queue, 1)
    consumed = Consumed(connection, queue, prefetch=1)
    wait_until(lambda: leased(client, queue) == 1)

    client.queue(queue).purge()
    wait_until(lambda: f"of queue {queue} is lost, its task may run twice" in caplog.text)
    publish(connection, queue, 2)
    # There is room for the next one once the first has had its turn.
    consumed.drain_count(1)

    assert consumed.bodies() == [2]


def test_a_message_is_renewed_no_more_once_it_is_settled(
    connect: Connect, client: Client, queue: str
) -> None:
    connection = connect(visibility_timeout=1)
    publish(connection, queue, 1)
    consumed = Consumed(connection, queue, prefetch=1)
    consumed.drain_count(1)
    message = consumed.held(0)
    wait_for_renewals(message, 1)

    consumed.consumer.cancel()
    consumed.messages[0].reject(requeue=True)

    wait_until(lambda: ready(client, queue) == 1)
    assert message.is_settled


class FirstRenewalHangs:
    """A session whose first renewal is not answered until `go_on`."""

    context = None

    def __init__(self) -> None:
        self.renewals = 0
        self.go_on = threading.Event()
        self._lock = threading.Lock()

    def run(self, renewal: object) -> float:
        with self._lock:
            self.renewals += 1
            is_first = self.renewals == 1
        if is_first:
            assert self.go_on.wait(30)
        return 600.0


def make_messages(session: FirstRenewalHangs, number: int) -> list[Message]:
    """Return messages whose renewal is late."""
    now, today = time.monotonic(), datetime.now(UTC)
    return [
        Message(
            cast(Session, session),
            Delivery(
                QueueName("tasks"), MessageId(str(at)), b"", "text/plain", "0f9e8d7c6b5a4938",
                1, today, today, None, lease_seconds=3.0, leased_at=now - 2,
            ),
        )
        for at in range(number)
    ]  # fmt: skip


def test_a_renewal_that_hangs_costs_no_other_lease() -> None:
    """Nor do many that take long together: some are under way at a time."""
    session = FirstRenewalHangs()
    renewer = Renewer(cast(Session, session))
    messages = make_messages(session, 3)

    for message in messages:
        renewer.hold(message)

    wait_until(lambda: session.renewals == 3)
    session.go_on.set()
    for message in messages:
        renewer.end(message)
    renewer.close()


def test_a_system_without_more_threads_costs_no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FirstRenewalHangs()
    session.go_on.set()
    renewer = Renewer(cast(Session, session))
    messages = make_messages(session, 3)
    starts: list[threading.Thread] = []
    start = threading.Thread.start

    def start_one(thread: threading.Thread) -> None:
        starts.append(thread)
        if len(starts) > 1:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    for message in messages:
        renewer.hold(message)

    wait_until(lambda: session.renewals == 3)
    assert len(starts) > 1
    for message in messages:
        renewer.end(message)
    renewer.close()


def test_leases_are_renewed_once_the_system_has_a_thread_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = FirstRenewalHangs()
    session.go_on.set()
    renewer = Renewer(cast(Session, session))
    messages = make_messages(session, 2)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            renewer.hold(messages[0])
    renewer.hold(messages[1])

    wait_until(lambda: session.renewals == 2)
    for message in messages:
        renewer.end(message)
    renewer.close()
