"""A batch goes once it and what the sink has written are on stable media. A sync that failed is not
made good by a later one: the kernel has taken what it could not write for clean."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from mq.disk.files import Files
from mq.errors import ClaimError
from mq.lifecycle import Actor
from mq.spool.root import visit_root
from mq.spool.spark.claims import Group
from mq.spool.spool import Spool
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in, new_id, seal_of, write_message
from tests.support.spark_files import bodies, start_group
from tests.support.stores import ORDERS

StartDriver = Callable[..., Group]


@pytest.fixture
def start(spool: Spool) -> Iterator[StartDriver]:
    """A driver of the group `lake`, as a process of its own that begins now."""
    with ExitStack() as stack:

        def start_one(files: Files | None = None) -> Group:
            opened = visit_root(spool.root, files or Files(), Actor.SPARK)
            stack.callback(opened.close)
            return start_group(opened)

        yield start_one


def seal_batch(spool: Spool, group: Group, batch: int, body: bytes) -> None:
    message_id = new_id()
    write_message(spool.root / "queues/orders" / message_id, body, seal=seal_of(body))
    claim = group.begin(batch, 1)
    claim.take(ORDERS, message_id, lambda _: 0)
    assert claim.seal()


def fail_to_finish(spool: Spool, start: StartDriver) -> None:
    """Finish batch 1, whose message is `one`, on a disk that cannot be synced."""
    files = WatchedFiles()
    group = start(files)
    seal_batch(spool, group, 1, b"one")
    files.fail("sync_file_system")
    with pytest.raises(ClaimError, match=r"batch 1 was done.* kept in .*/1\.unsynced") as raised:
        group.finish(1, archives=False)
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.errno == errno.EIO


def test_what_was_not_synced_is_kept_though_a_later_sync_succeeds(
    spool: Spool, start: StartDriver
) -> None:
    fail_to_finish(spool, start)

    for batch in (1, 2):
        with pytest.raises(ClaimError, match=r"1\.unsynced"):
            start().finish(batch, archives=False)

    assert bodies(spool.root, "spark/claims/lake/1.unsynced/0") == [b"one"]
    assert names_in(spool.root / "remove") == []


def test_a_batch_that_the_sink_has_goes_once_a_person_says_so(
    spool: Spool, start: StartDriver
) -> None:
    fail_to_finish(spool, start)
    claims = spool.root / "spark/claims/lake"
    (claims / "1.unsynced").rename(claims / "1")

    start().finish(1, archives=False)

    assert bodies(spool.root, "remove/lake:.1/0") == [b"one"]


def test_a_batch_that_the_sink_lacks_is_read_again_after_it_was_given_back(
    spool: Spool, start: StartDriver
) -> None:
    fail_to_finish(spool, start)

    assert start().give_back_unsynced() == 1

    assert bodies(spool.root) == [b"one"]
    group = start()
    seal_batch(spool, group, 2, b"two")
    group.finish(2, archives=False)
    assert (group.floor(), group.sealed(), group.unsynced()) == (2, [], [])


def test_of_several_batches_that_were_not_synced_each_is_decided_about(
    spool: Spool, start: StartDriver
) -> None:
    files = WatchedFiles()
    group = start(files)
    for batch in (1, 2):
        seal_batch(spool, group, batch, b"%d" % batch)
    files.fail("sync_file_system")
    with pytest.raises(ClaimError, match=r"1\.unsynced"):
        group.finish(2, archives=False)
    claims = spool.root / "spark/claims/lake"
    (claims / "1.unsynced").rename(claims / "1")

    with pytest.raises(ClaimError, match=r"2\.unsynced"):
        start().finish(2, archives=False)

    assert bodies(spool.root, "spark/claims/lake/1/0") == [b"1"]
