"""What the driver's half of a write does when it is not alone, or not the first. No session: the
tasks are played."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mq.disk import calls
from mq.disk.files import Files
from mq.errors import ClaimError
from mq.lifecycle import Actor
from mq.names import QueueName
from mq.spool.root import visit_root
from mq.spool.spark.jobs import Job
from mq.spool.spark.staging import Attempt, StagedMessage
from pyspark_mq.by_url.staging import make_staged_queue, open_staging
from pyspark_mq.options.addresses import Addresses
from pyspark_mq.options.options import BATCH_WRITE, STREAM_WRITE, Options, parse_options
from pyspark_mq.writing.write import BatchWriter, NotBrought, Staged, StreamWriter, commit_staged
from tests.support.faults import raising
from tests.support.lone_root import Root
from tests.support.spark_files import HookedFiles, sweep
from tests.support.url_site import UrlSite

ORDERS = QueueName("orders")


@pytest.fixture
def lone(root: Path) -> Root:
    made = Root(root)
    made.put("orders")
    return made


def options(root: Root, version: int | None = None) -> Options:
    given = {"root": str(root.path), "queue": "orders"}
    if version is None:
        return parse_options(given, STREAM_WRITE)
    return parse_options(given | {"txnAppId": "app", "txnVersion": str(version)}, BATCH_WRITE)


def task(root: Root | UrlSite, name: str, body: bytes, job: str = "app", batch: int = 1) -> Staged:
    """One that ended well."""
    path = root.path if isinstance(root, Root) else root.staging / "out"
    spool = visit_root(path, Files(), Actor.SPARK)
    attempt = Attempt(Job(spool, job), batch, name)
    attempt.add([StagedMessage(ORDERS, body)])
    attempt.seal()
    spool.close()
    return Staged(job, batch, name)


def bodies(root: Root) -> list[bytes]:
    return sorted(path.read_bytes() for path in (root.path / "queues/orders").iterdir())


def dies_before_it_delivers(version: BatchWriter, message: Staged) -> None:
    """A process of its own, killed at its first rename to the queue."""
    process = os.fork()
    if process == 0:

        def die(*_: object) -> None:
            os.kill(os.getpid(), 9)

        calls._native = None
        Files.rename = die  # type: ignore[assignment,method-assign]
        version.commit([message])
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 9


def test_the_abort_of_a_replaced_driver_leaves_the_new_drivers_rows(lone: Root) -> None:
    old, new = StreamWriter(options(lone)), StreamWriter(options(lone))
    of_old: list[Any] = [task(lone, "0-1", b"one"), None]
    of_new: list[Any] = [task(lone, "0-2", b"one"), task(lone, "1-2", b"two")]

    old.abort(of_old, 1)

    assert sorted(os.listdir(lone.path / "spark/stage/app/1")) == ["0-2", "1-2"]
    new.commit(of_new, 1)
    assert bodies(lone) == [b"one", b"two"]


def test_a_task_of_a_version_that_is_committed_reads_no_row(lone: Root) -> None:
    BatchWriter(options(lone, 1)).commit([task(lone, "0-1", b"one")])
    rows = iter(pa.record_batch({"value": [b"other"]}) for _ in range(1))

    assert BatchWriter(options(lone, 1)).write(rows).was_committed

    assert len(list(rows)) == 1


def test_a_version_whose_driver_was_killed_after_the_link_is_finished_by_another_run(
    lone: Root,
) -> None:
    dies_before_it_delivers(BatchWriter(options(lone, 1)), task(lone, "0-1", b"one"))
    assert bodies(lone) == []

    again = BatchWriter(options(lone, 1))
    again.commit([again.write(iter(()))])

    assert bodies(lone) == [b"one"]


def test_a_version_whose_driver_was_killed_after_the_link_is_finished_by_the_next(
    lone: Root,
) -> None:
    dies_before_it_delivers(BatchWriter(options(lone, 1)), task(lone, "0-1", b"one"))

    BatchWriter(options(lone, 2)).commit([task(lone, "0-2", b"two", batch=2)])

    assert bodies(lone) == [b"one", b"two"]


def test_a_version_that_a_later_one_overtook_fails_and_one_that_was_behind_is_skipped(
    lone: Root,
) -> None:
    overtaken = BatchWriter(options(lone, 1))
    of_overtaken = task(lone, "0-1", b"one")
    BatchWriter(options(lone, 2)).commit([task(lone, "0-2", b"two", batch=2)])

    with pytest.raises(ClaimError, match="version 2 was committed while version 1 was written"):
        overtaken.commit([of_overtaken])

    late = BatchWriter(options(lone, 1))
    late.commit([late.write(iter(()))])
    assert bodies(lone) == [b"two"]


def test_an_overtaken_version_is_not_called_committed_if_the_disk_keeps_what_overtook_it(
    lone: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    overtaken, later = BatchWriter(options(lone, 1)), BatchWriter(options(lone, 2))
    one, two = task(lone, "0-1", b"one"), task(lone, "0-2", b"two", batch=2)
    files = HookedFiles()
    files.before_delivery = raising(errno.EIO)
    monkeypatch.setattr("pyspark_mq.job_root.files_for", lambda _: files)

    with pytest.raises(NotBrought):
        later.commit([two])
    with pytest.raises(ClaimError, match="version 2 was committed while version 1 was written"):
        overtaken.commit([one])


def test_rows_that_a_task_left_out_as_committed_are_not_lost_with_the_transaction(
    lone: Root,
) -> None:
    BatchWriter(options(lone, 1)).commit([task(lone, "0-1", b"one")])
    again = BatchWriter(options(lone, 1))
    messages: list[Any] = [again.write(iter(()))]
    shutil.rmtree(lone.path / "spark/txn/app")

    with pytest.raises(ClaimError, match="was committed when a task looked"):
        again.commit(messages)


def test_a_write_that_is_committed_and_not_brought_says_so(lone: Root) -> None:
    files = HookedFiles()
    files.before_delivery = raising(errno.EIO)
    message = task(lone, "0-1", b"one")

    with pytest.raises(NotBrought, match=r"the write is committed, .*error.*sweep brings the rest"):
        commit_staged(options(lone, 1), "app", 1, [message], files)

    sweep(lone.path)
    assert bodies(lone) == [b"one"]


def test_by_url_a_write_that_is_committed_and_not_brought_hopes_for_no_server(lone: Root) -> None:
    """No server sweeps a staging."""
    files = HookedFiles()
    files.before_delivery = raising(errno.EIO)
    by_url = replace(options(lone, 1), addresses=Addresses(("http://127.0.0.1:1",)))

    with pytest.raises(NotBrought, match="Any write with this staging, even one without rows, "):
        commit_staged(by_url, "app", 1, [task(lone, "0-1", b"one")], files)


def test_by_url_any_write_publishes_what_a_dead_driver_has_committed(site: UrlSite) -> None:
    """No server sweeps a staging."""
    spool = open_staging(site.prepare("out"))
    make_staged_queue(spool, ORDERS)
    spool.close()
    named = site.options | {"txnAppId": "app", "txnVersion": "1"}
    died = BatchWriter(parse_options(named, BATCH_WRITE))
    dies_before_it_delivers(died, task(site, "0-1", b"one"))

    BatchWriter(parse_options(site.options, BATCH_WRITE)).commit([])

    assert site.bodies() == [b"one"]


def test_by_url_what_an_aborted_write_has_staged_leaves_the_disk(lone: Root) -> None:
    """No reaper works in a staging, and a write that finds the disk full gets no further."""
    writer = BatchWriter(replace(options(lone, 1), addresses=Addresses(("http://127.0.0.1:1",))))

    writer.abort([task(lone, "0-1", b"one")])

    assert lone.names("spark") == lone.names("remove") == []


def test_a_write_that_is_not_committed_does_not_say_that_it_is(lone: Root) -> None:
    files = HookedFiles()
    files.before_link = raising(errno.ENOSPC)
    message = task(lone, "0-1", b"one")

    with pytest.raises(OSError, match="No space left"):
        commit_staged(options(lone, 1), "app", 1, [message], files)
