"""The way out: what is committed is published once, whatever is repeated."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mq.client import NewMessage, NoAnswer, Unavailable
from mq.disk.files import Files
from mq.lifecycle import Actor, Folder
from mq.names import QueueName
from mq.spool.root import visit_root
from mq.spool.spark.jobs import Job
from mq.spool.spark.staging import Attempt, StagedMessage
from mq.spool.spool import Spool
from pyspark_mq.by_url.forward import Forwarder, NotForwarded
from pyspark_mq.by_url.servers import ServerChoice
from pyspark_mq.by_url.staging import make_staged_queue
from pyspark_mq.options.options import BATCH_WRITE, parse_options
from pyspark_mq.writing.write import BatchWriter, Staged
from tests.support.messages import seal_of, stamp, write_message
from tests.support.processes import Server
from tests.support.url_site import UrlSite

OpenIn = Callable[..., Spool]


def forward(site: UrlSite, spool: Spool, **settings: Any) -> None:
    with ServerChoice(site.addresses(**{"retry_seconds": 0.2} | settings)) as servers:
        Forwarder(spool, servers).forward()


def commit(site: UrlSite, count: int, queue: str = "orders") -> None:
    """Leave messages as a transaction does, with ids in the order of their bodies."""
    folder = site.staging / "out/queues" / queue
    folder.mkdir(exist_ok=True)
    for number in range(count):
        body = b"%04d" % number
        write_message(folder / f"id-{number:04}", body, seal=seal_of(body, published_ns=number + 1))


def numbered(count: int) -> list[bytes]:
    return [b"%04d" % number for number in range(count)]


def test_all_that_waits_is_published_in_order_and_leaves_the_staging(
    site: UrlSite, open_in: OpenIn
) -> None:
    spool = open_in("out")
    commit(site, 2500)

    forward(site, spool)

    received = [each.body for _ in range(3) for each in site.orders.receive_many(1000)]
    assert received == numbered(2500)
    assert site.staged("out", "queues") == site.staged("out", "remove") == []


class DiesAfterPublishing(Files):
    """At the first change that follows a publication."""

    def rename(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        raise KeyboardInterrupt


def test_a_batch_that_was_published_before_a_crash_is_not_there_twice(
    site: UrlSite, open_in: OpenIn
) -> None:
    open_in("out")
    commit(site, 3)
    with pytest.raises(KeyboardInterrupt):
        forward(site, open_in("out", DiesAfterPublishing()))
    [consumed] = site.orders.receive_many(1)
    consumed.ack()

    forward(site, open_in("out"))

    assert site.bodies() == numbered(3)[1:]
    assert site.staged("out", "queues") == []


def test_a_delay_is_kept(site: UrlSite, open_in: OpenIn) -> None:
    spool = open_in("out")
    path = site.staging / "out/delay/orders:later"
    write_message(path, b"later", seal=seal_of(b"later"))
    stamp(path, 3600)

    forward(site, spool)

    assert site.orders.counts()[1:4] == (0, 0, 1)
    [delayed] = (site.server.root / "delay").iterdir()
    assert 3590 <= delayed.stat().st_mtime - time.time() <= 3601


def test_an_id_that_has_another_body_is_set_aside_and_named_and_the_others_go(
    site: UrlSite, open_in: OpenIn
) -> None:
    spool = open_in("out")
    commit(site, 3)
    site.orders.publish_many([NewMessage("another", message_id="id-0001")])

    with pytest.raises(
        NotForwarded, match=r"id-0001 for queue orders was refused, and is .*/corrupt/"
    ):
        forward(site, spool)

    assert sorted(site.bodies()) == [b"0000", b"0002", b"another"]
    assert site.staged("out", "corrupt") == ["orders:id-0001"]
    forward(site, spool)


def test_a_queue_that_was_deleted_keeps_its_messages_in_the_staging(
    site: UrlSite, open_in: OpenIn
) -> None:
    spool = open_in("out")
    commit(site, 2)
    site.orders.delete()

    with pytest.raises(NotForwarded, match="no queue orders: its 2 messages wait in"):
        forward(site, spool)

    site.orders.create()
    forward(site, spool)
    assert site.bodies() == numbered(2)


def test_a_queue_that_was_deleted_keeps_no_message_from_another_queue(
    site: UrlSite, open_in: OpenIn
) -> None:
    spool = open_in("out")
    commit(site, 2)
    for queue in ("a-gone", "z-gone"):
        commit(site, 1, queue)

    with pytest.raises(NotForwarded, match=r"no queue a-gone: .*no queue z-gone: "):
        forward(site, spool)

    assert site.bodies() == numbered(2)


class BusyElsewhere(Files):
    """Another process has the lock at some tries, and puts a message away before each of them, as
    long as there is one."""

    def __init__(self, site: UrlSite, tries: int) -> None:
        super().__init__()
        self._staging = site.staging / "out"
        self._tries = tries

    def lock(self, fd: int) -> bool:
        if not self._tries:
            return super().lock(fd)
        self._tries -= 1
        for each in sorted((self._staging / "queues/orders").iterdir())[:1]:
            each.rename(self._staging / "remove" / f"orders:{each.name}")
        return False


def test_another_process_that_publishes_for_long_is_waited_for_and_a_stopped_one_is_not(
    site: UrlSite, open_in: OpenIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_mq.by_url.forward.LOCK_SECONDS", 0.0)
    open_in("out")
    commit(site, 5)

    forward(site, open_in("out", BusyElsewhere(site, tries=3)))
    assert site.bodies() == numbered(5)[3:]

    commit(site, 1)
    with pytest.raises(BlockingIOError, match="another process holds its lock"):
        forward(site, open_in("out", BusyElsewhere(site, tries=3)))


def test_a_queue_of_which_nothing_waits_is_not_waited_for(
    site: UrlSite, open_in: OpenIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_mq.by_url.forward.LOCK_SECONDS", 0.0)
    spool = open_in("out")
    site.mq.queue("returns").create()
    commit(site, 0)
    commit(site, 2, queue="returns")
    with spool.files.locked_folder(spool.fd(Folder.QUEUES), "orders", 0.0):
        forward(site, open_in("out"))

    assert site.bodies("returns") == numbered(2)


def test_a_queue_with_room_for_fewer_than_a_request_gets_each_message_once(
    site: UrlSite, open_in: OpenIn
) -> None:
    spool = open_in("out")
    commit(site, 1000)
    site.orders.create({"max-messages": 300})
    with pytest.raises(Unavailable, match="allows, which leaves no room"):
        forward(site, spool, retry_seconds=5.0)
    there = site.orders.counts().ready
    assert there > 0
    assert len(site.staged("out", "queues")) == 1000 - there
    consumed: list[bytes] = []

    def consume() -> None:
        while len(consumed) < 1000:
            for each in site.orders.receive_many(1000, wait=1.0):
                each.ack()
                consumed.append(each.body)

    with ThreadPoolExecutor(1) as consumer:
        consuming = consumer.submit(consume)
        forward(site, spool, retry_seconds=60.0)
        consuming.result()

    assert consumed == numbered(1000)
    assert site.staged("out", "queues") == []


def test_while_no_server_answers_everything_waits(site: UrlSite, open_in: OpenIn) -> None:
    spool = open_in("out")
    commit(site, 2)
    site.server.stop()

    with pytest.raises(NoAnswer):
        forward(site, spool)

    assert len(site.staged("out", "queues")) == 2


def test_a_write_that_is_committed_and_not_published_says_so_and_where_it_waits(
    site: UrlSite, open_in: OpenIn, start_server: Callable[..., Server]
) -> None:
    make_staged_queue(open_in("out"), QueueName("orders"))
    spool = visit_root(site.staging / "out", Files(), Actor.SPARK)
    attempt = Attempt(Job(spool, "app"), 1, "0-1")
    attempt.add([StagedMessage(QueueName("orders"), b"one")])
    attempt.seal()
    spool.close()
    given = site.options | {"retrySeconds": "0.2"}
    write = parse_options(given | {"txnAppId": "app", "txnVersion": "1"}, BATCH_WRITE)
    site.server.stop()

    with pytest.raises(
        NotForwarded,
        match=rf"the write is committed, .* does not answer.*waits in {site.staging}/out, and any",
    ):
        BatchWriter(write).commit([Staged("app", 1, "0-1")])

    start_server(f"--port={site.server.port}", root=site.server.root)
    BatchWriter(parse_options(given, BATCH_WRITE)).commit([])
    assert site.bodies() == [b"one"]
