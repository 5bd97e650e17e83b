"""What is brought out of `spark` while its queue is deleted and made again, or while the clock goes
back: no queue gets a message of the one before, and none loses its own."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from mq.disk.calls import CHAINS_AT_ONCE
from mq.disk.files import Files
from mq.names import MessageId
from mq.spool.finder import Finder
from mq.spool.queue.queue_birth import MADE_ATTRIBUTE
from mq.spool.spark.claims import Group
from mq.spool.spark.finished import DoneBatches
from mq.spool.spark.jobs import Job
from mq.spool.spark.staging import Attempt, StagedMessage
from mq.spool.spark.transactions import commit
from mq.spool.spool import Spool
from tests.support.faults import raising
from tests.support.messages import names_in, seal_of, write_message
from tests.support.spark_files import bodies, make_again, stage, start_group
from tests.support.stores import ORDERS


class SharingFiles(Files):
    """Calls what a test wants before the lock of a queue's folder is shared. The disk cannot read
    the attributes of the message `unreadable`."""

    def __init__(self) -> None:
        super().__init__()
        self.before_sharing: Callable[[], None] = lambda: None
        self.unreadable = ""

    def attribute(self, fd: int | str, name: str) -> bytes | None:
        if self.unreadable and str(fd).endswith(f":{self.unreadable}"):
            raising(errno.EIO)()
        return super().attribute(fd, name)

    def lock_shared(self, fd: int) -> bool:
        self.before_sharing()
        return super().lock_shared(fd)


@pytest.fixture
def files() -> SharingFiles:
    return SharingFiles()


def replace_queue(root: Path, earlier: Path) -> None:
    """Delete the queue and make it again, later than `earlier`."""
    (root / "queues/orders").rename(root / "remove/orders:.gone")
    (root / "queues/orders").mkdir()
    make_again(root / "queues/orders", earlier)


def claim_one(spool: Spool, message_id: str, published_ns: int = 0) -> Path:
    """Leave a message in an open claim. Returns its path there."""
    seal = seal_of(b"old", published_ns=published_ns)
    write_message(spool.root / "queues/orders" / message_id, b"old", seal=seal)
    group = start_group(spool)
    group.begin(1, 1).take(ORDERS, MessageId(message_id), lambda _: 0)
    [claimed] = (spool.root / "spark/claims/lake").glob("1.open.*/0/*")
    return claimed


def knows(spool: Spool, message_id: str) -> bool:
    """Return whether a producer would be told that its message is there."""
    finder = Finder(spool, DoneBatches(spool), ORDERS, ())
    return any(finder.find(MessageId(message_id)))


def test_a_queue_made_again_in_the_middle_gets_nothing_of_what_was_written_to_the_old_one(
    spool: Spool, files: SharingFiles
) -> None:
    winner = stage(spool, "0-1", *[b"old"] * (CHAINS_AT_ONCE + 1))
    shares = count(1)

    def replace_after_some() -> None:
        if next(shares) == 2:
            replace_queue(spool.root, spool.root / "spark/txn/app/1")

    files.before_sharing = replace_after_some
    commit(Job(spool, "app"), 1, [winner])

    assert bodies(spool.root, "remove/orders:.gone") == [b"old"] * CHAINS_AT_ONCE
    assert bodies(spool.root) == []
    assert len(names_in(spool.root / "remove")) == 2


def test_a_queue_made_again_after_the_first_look_gets_no_claim_of_the_old_one_back(
    spool: Spool, files: SharingFiles
) -> None:
    claimed = claim_one(spool, "one")
    again = iter([True])

    def replace_first() -> None:
        if next(again, False):
            replace_queue(spool.root, claimed)

    files.before_sharing = replace_first
    Group(spool, "lake", "next").fence()

    assert bodies(spool.root) == []


def test_a_claim_that_the_disk_cannot_read_keeps_no_other_of_the_old_queue(
    spool: Spool, files: SharingFiles
) -> None:
    group = start_group(spool)
    ids = [MessageId("one"), MessageId("two")]
    for each in ids:
        write_message(spool.root / "queues/orders" / each, b"old", seal=seal_of(b"old"))
    group.begin(1, 1).take_many([(ORDERS, each) for each in ids], lambda _: 0)
    [claimed] = (spool.root / "spark/claims/lake").glob("1.open.*/0/orders:two")
    replace_queue(spool.root, claimed)

    files.unreadable = "one"
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        Group(spool, "lake", "next").fence()

    assert "orders:two~2" in names_in(spool.root / "remove")
    files.unreadable = ""
    Group(spool, "lake", "third").fence()
    assert "orders:one~2" in names_in(spool.root / "remove")
    assert bodies(spool.root) == []


@pytest.mark.parametrize("comes_first", ["the queue", "the driver"])
def test_a_queue_made_again_does_not_know_the_ids_that_were_claimed_from_the_old_one(
    spool: Spool, comes_first: str
) -> None:
    claimed = claim_one(spool, "one")
    (spool.root / "queues/orders").rmdir()
    if comes_first == "the queue":
        (spool.root / "queues/orders").mkdir()
        make_again(spool.root / "queues/orders", claimed)
    Group(spool, "lake", "next").fence()
    (spool.root / "queues/orders").mkdir(exist_ok=True)

    assert names_in(spool.root / "remove") == ["orders:one~2"]
    assert not knows(spool, "one")


def test_a_queue_made_again_does_not_know_the_ids_that_were_written_to_the_old_one(
    spool: Spool,
) -> None:
    attempt = Attempt(Job(spool, "app"), 1, "0-1")
    attempt.add([StagedMessage(ORDERS, b"old", MessageId("one"))])
    attempt.seal()
    (spool.root / "queues/orders").rmdir()
    commit(Job(spool, "app"), 1, ["0-1"])
    (spool.root / "queues/orders").mkdir()

    assert not knows(spool, "one")


def test_a_queue_that_was_made_before_the_clock_went_back_gets_what_is_written_to_it(
    spool: Spool,
) -> None:
    queue, made_ns = spool.root / "queues/orders", time.time_ns() + 3600 * 10**9
    os.setxattr(queue, MADE_ATTRIBUTE, b"%d" % made_ns)
    os.utime(queue, ns=(made_ns, made_ns))

    commit(Job(spool, "app"), 1, [stage(spool, "0-1", b"one")])

    assert bodies(spool.root) == [b"one"]


def test_a_claim_of_a_message_that_is_younger_than_its_queue_goes_back_whatever_the_clock_says(
    spool: Spool,
) -> None:
    """The clock was set back between the publication and the claim, or is that of another host."""
    queue = spool.root / "queues/orders"
    claimed = claim_one(spool, "one", time.time_ns() + 3600 * 10**9)
    os.setxattr(queue, MADE_ATTRIBUTE, b"%d" % (claimed.stat().st_ctime_ns + 1))
    os.utime(queue)

    Group(spool, "lake", "next").fence()

    assert bodies(spool.root) == [b"old"]


def test_what_is_written_to_a_queue_reaches_it_whatever_the_clock_says(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is behind the time at which the queue was made until a server brings it there."""
    queue, made_ns = spool.root / "queues/orders", time.time_ns() + 3600 * 10**9
    os.setxattr(queue, MADE_ATTRIBUTE, b"%d" % made_ns)
    os.utime(queue, ns=(made_ns, made_ns))
    winner = stage(spool, "0-1", b"one")
    monkeypatch.setattr(time, "time_ns", lambda: made_ns + 1)

    commit(Job(spool, "app"), 1, [winner])

    assert bodies(spool.root) == [b"one"]
