"""`/metrics` of `mq --standalone`: what its mover, reaper and gateway count, for nobody else tells
it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mq.config import MAX_METRIC_QUEUES
from mq.metrics.tally import OTHER_QUEUES, ServerCounts, Tally, by_queue
from mq.names import QueueName
from mq.store.counts import OperationCounts
from tests.support.gateways import client_of, make_url, name_of
from tests.support.processes import Server, wait_until
from tests.support.scraping import scrape
from tests.support.wire import Wire, let_lease_end, request_bytes

NAMES = ("redelivered", "dead_lettered", "reaped")


@pytest.fixture
def server(start_server: Callable[..., Server]) -> Server:
    return start_server("--standalone", "--admin=127.0.0.1:0", "--max-receives=2", "--keep=0")


def totals(server: Server) -> dict[str, float]:
    found = scrape(server.admin_port)
    return {name: found.value(f"mq_messages_{name}_total") for name in NAMES}


def let_one_die(wire: Wire) -> None:
    """Received twice: given back once, then moved to the dead letters."""
    message_id = wire.publish("q")
    for _ in range(2):
        let_lease_end(wire, "q", message_id)


def child(server: Server, module: str) -> int | None:
    pid = server.popen.pid
    for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        # One that ends meanwhile has no more lines to read.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if module in Path(f"/proc/{each}/cmdline").read_text():
                return int(each)
    return None


def test_a_standalone_server_tells_what_its_children_do(
    server: Server, connect: Callable[[Server], Wire]
) -> None:
    """In one figure each, also after a child was killed and started again."""
    wire = connect(server)
    wire.request("PUT", "/q")

    let_one_die(wire)
    assert wire.remove("q", wire.publish("q")).status == 202

    wait_until(lambda: totals(server) == {"redelivered": 1, "dead_lettered": 1, "reaped": 1}, 100)
    found = scrape(server.admin_port)
    assert found.value("mq_reaper_kept_files") == 0
    assert found.value("mq_mover_moved_total") == 0

    mover = child(server, "mq_mover")
    assert mover is not None
    os.kill(mover, signal.SIGKILL)
    wait_until(lambda: child(server, "mq_mover") not in (None, mover), 100)
    let_one_die(wire)

    wait_until(lambda: totals(server) == {"redelivered": 2, "dead_lettered": 2, "reaped": 1}, 100)


def test_what_the_server_gives_back_itself_is_in_the_same_figure(
    server: Server, connect: Callable[[Server], Wire]
) -> None:
    wire = connect(server)
    wire.request("PUT", "/q")
    message_id = wire.publish("q")
    lease = wire.request("GET", "/q/messages").headers["etag"]

    released = wire.request("GET", f"/q/messages?id={message_id}&visibility=0", if_match=lease)

    assert released.status < 300
    assert totals(server)["redelivered"] == 1


def gateways_of(server: Server) -> list[str]:
    """The addresses of those that have begun to listen, in that order."""
    listening = r"process=mq-sqs event=listening url=(http://127\.0\.0\.1:\d+)"
    return re.findall(listening, server.log())


def test_a_standalone_server_tells_what_its_gateway_does(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire]
) -> None:
    """In one figure with what it does itself, also after the gateway was killed."""
    server = start_server("--standalone", "--sqs-port=0", "--admin=127.0.0.1:0", "--keep=0")
    wait_until(lambda: gateways_of(server), 100)
    sqs = client_of(server, endpoint_url=gateways_of(server)[0])
    url = make_url(sqs)
    queue = name_of(url)
    for _ in range(2):
        sqs.send_message(QueueUrl=url, MessageBody="a")
    [received] = sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=received["ReceiptHandle"])
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.purge_queue(QueueUrl=f"{url}-not-there")
    connect(server).publish(queue)

    def assert_counted(published: int, sent: int) -> None:
        found = scrape(server.admin_port)
        assert found.value("mq_messages_published_total") == published
        assert found.value("mq_queue_messages_published_total", queue=queue) == published
        assert found.value("mq_queue_messages_received_total", queue=queue) == 1
        assert found.value("mq_messages_removed_total") == 1
        for route, code, number in (("SendMessage", "200", sent), ("PurgeQueue", "400", 1)):
            labels = {"route": route, "method": "json", "code": code}
            name = "mq_http_request_duration_seconds"
            assert found.value(f"{name}_count", **labels) == number
            assert found.value(f"{name}_sum", **labels) > 0

    assert_counted(published=3, sent=2)
    gateway = child(server, "mq_sqs")
    assert gateway is not None
    os.kill(gateway, signal.SIGKILL)
    wait_until(lambda: len(gateways_of(server)) == 2, 100)
    client_of(server, endpoint_url=gateways_of(server)[1]).send_message(
        QueueUrl=url, MessageBody="b"
    )

    assert_counted(published=4, sent=3)


def test_a_server_alone_tells_nothing_of_a_reaper(start_server: Callable[..., Server]) -> None:
    server = start_server("--admin=127.0.0.1:0")

    assert "mq_messages_reaped" not in scrape(server.admin_port).text


def test_a_standalone_server_tells_who_waits_at_its_gateway(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire]
) -> None:
    """They are in one figure with those who wait at the server."""
    server = start_server("--standalone", "--sqs-port=0", "--admin=127.0.0.1:0")
    wait_until(lambda: gateways_of(server), 100)
    sqs = client_of(server, endpoint_url=gateways_of(server)[0])
    url = make_url(sqs)
    queue = name_of(url)

    def waiting() -> tuple[float, float]:
        found = scrape(server.admin_port)
        return (
            found.value("mq_waiting_receives"),
            found.value("mq_queue_waiting_receives", queue=queue),
        )

    with ThreadPoolExecutor() as threads:
        wire = connect(server)
        wire.send(request_bytes("GET", f"/{queue}/messages?wait=60"))
        received = threads.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20)
        wait_until(lambda: waiting() == (2, 2), 15)
        wire.close()
        wait_until(lambda: waiting() == (1, 1), 15)
        sqs.send_message(QueueUrl=url, MessageBody="a")
        assert len(received.result()["Messages"]) == 1
    wait_until(lambda: waiting() == (0, 0), 100)


def test_those_who_waited_at_a_gateway_that_was_killed_wait_no_more() -> None:
    with contextlib.closing(Tally(ServerCounts)) as tally:
        counts = OperationCounts(tally.counts)
        counts.show_waiting({QueueName("a"): 2, QueueName("b"): 1})
        assert waits_in(tally.counts) == {"a": 2, "b": 1}
        counts.show_waiting({QueueName("b"): 1})
        assert waits_in(tally.counts) == {"a": 0, "b": 1}

        OperationCounts(tally.counts)

        assert waits_in(tally.counts) == {"a": 0, "b": 0}


def test_those_who_wait_for_queues_without_figures_are_shown_together() -> None:
    shared = ServerCounts()
    queues = [QueueName(f"q{number}") for number in range(MAX_METRIC_QUEUES + 3)]

    OperationCounts(shared).show_waiting(dict.fromkeys(queues, 2))

    assert waits_in(shared) == dict.fromkeys(queues[:MAX_METRIC_QUEUES], 2) | {OTHER_QUEUES: 6}


def waits_in(counts: ServerCounts) -> dict[str, int]:
    return {queue: each.waiting for queue, each in by_queue(counts).items()}
