"""Handovers that a crash left in `new`: a sweep finishes those that have taken their message."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.batch_names import parse_batch_name
from mq.spool.finder import Finder
from mq.spool.handovers import give_up
from mq.spool.leftovers import Leftovers
from mq.spool.queue.queues import begin_deletion, finish_deletion
from mq.spool.sets import hold_set
from mq.spool.spark.finished import DoneBatches
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper, Swept
from tests.support.fsck import Fsck
from tests.support.messages import names_in, write_message, write_set

ORDERS, BILLS = QueueName("orders"), QueueName("bills")
SEALED = ".-:0123"
OPEN = f"{SEALED}.open"


def ignore(name: str, why: str) -> None:
    """What stays is looked at on disk."""


def leave(spool: Spool, name: str, *, has_taken: bool = True) -> Path:
    """A handover with messages 1 and 2 for `orders`, and what it has taken of `bills`."""
    folder = write_set(spool.root / "new" / name, "1", "2")
    if has_taken:
        write_message(folder / ".bills:taken", b"bill", seal=None)
    return folder


@pytest.mark.parametrize("name", [OPEN, SEALED])
def test_what_has_taken_its_message_is_published(spool: Spool, orders: Path, name: str) -> None:
    leave(spool, name)

    assert Sweeper(spool, ignore).sweep() == Swept(delivered=2, sets=1)

    assert names_in(orders) == ["1", "2"]
    assert names_in(spool.root / "remove") == ["bills:taken"]
    assert os.listdir(spool.root / "new") == []


def test_what_has_taken_none_is_given_up(spool: Spool, orders: Path) -> None:
    leave(spool, OPEN, has_taken=False)

    assert Sweeper(spool, ignore).sweep() == Swept(sets=1)

    assert names_in(orders) == os.listdir(spool.root / "new") == []
    assert [each.name[:7] for each in (spool.root / "remove").glob("batch:*")] == ["batch:."]


def test_a_hidden_file_that_is_no_message_publishes_nothing(spool: Spool, orders: Path) -> None:
    """NFS leaves such a one of a file that is open elsewhere."""
    folder = leave(spool, OPEN, has_taken=False)
    (folder / ".nfs0001").touch()

    assert Sweeper(spool, ignore).sweep() == Swept(sets=1)

    assert names_in(orders) == os.listdir(spool.root / "new") == []


@pytest.mark.parametrize("name", [OPEN, SEALED])
def test_one_whose_publisher_lives_is_let_alone(spool: Spool, orders: Path, name: str) -> None:
    leave(spool, name)
    fd = hold_set(spool, Folder.NEW, name)
    assert isinstance(fd, int)

    assert Sweeper(spool, ignore).sweep() == Swept()

    assert names_in(orders) == names_in(spool.root / "remove") == []
    spool.files.close(fd)


def test_a_removed_message_of_that_name_keeps_it(spool: Spool, orders: Path) -> None:
    leave(spool, SEALED)
    write_message(spool.root / "remove" / "bills:taken", b"another", seal=None)

    Sweeper(spool, ignore).sweep()

    assert names_in(spool.root / "remove") == ["bills:taken", "bills:taken~2"]


@pytest.mark.parametrize("second", ["delay/bills:taken", "queues/bills/taken"])
def test_its_second_name_goes_first(spool: Spool, orders: Path, second: str) -> None:
    """Where a move is a link and an unlink, a crash leaves both names."""
    (spool.root / "queues" / "bills").mkdir()
    taken = leave(spool, OPEN) / ".bills:taken"
    os.link(taken, spool.root / second)

    Sweeper(spool, ignore).sweep()

    assert names_in(orders) == ["1", "2"]
    assert not (spool.root / second).exists()
    assert os.listdir(spool.root / "new") == []
    assert names_in(spool.root / "remove")[0] == "bills:taken"


@pytest.mark.parametrize("place", ["delay/bills:taken", "queues/bills/taken"])
def test_another_message_of_that_name_stays(spool: Spool, orders: Path, place: str) -> None:
    """The one that was taken has a second name too: in a copy of the root, made by links."""
    (spool.root / "queues" / "bills").mkdir()
    os.link(leave(spool, SEALED) / ".bills:taken", spool.root.parent / "copied")
    other = write_message(spool.root / place, b"another", seal=None)

    Sweeper(spool, ignore).sweep()

    assert other.read_bytes() == b"another"
    assert names_in(spool.root / "remove") == ["bills:taken"]


def test_a_publisher_that_the_lock_does_not_reach_is_fenced_off(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds no folder of that name to bring its message to. What it brought before counts."""
    spool.files.is_of_network = True
    name = parse_batch_name(OPEN)
    assert name is not None
    folder = leave(spool, OPEN)
    seen: list[list[str]] = []
    rename = spool.rename_within

    def look(source: Folder, name: str, target: str) -> None:
        rename(source, name, target)
        seen.append([each for each in (OPEN, SEALED) if (folder.parent / each).exists()])

    monkeypatch.setattr(spool, "rename_within", look)

    sealed = give_up(spool, name)

    assert sealed is not None
    assert os.listdir(spool.root / "new") == [sealed]
    assert seen == [[], []]
    assert give_up(spool, name) is None


@pytest.mark.parametrize("name", [OPEN, SEALED])
def test_a_deletion_takes_what_is_of_its_queue(spool: Spool, orders: Path, name: str) -> None:
    (spool.root / "queues" / "bills").mkdir()
    folder = leave(spool, name)
    write_message(folder / "bills:3", b"another bill")

    begin_deletion(spool, BILLS)
    finish_deletion(spool, BILLS)

    assert sorted(os.listdir(folder)) == ["orders:1", "orders:2"]


@pytest.mark.parametrize(("name", "has_taken"), [(OPEN, True), (OPEN, False), (SEALED, True)])
def test_a_purge_brings_what_is_published_to_its_queue_first(
    spool: Spool, orders: Path, name: str, *, has_taken: bool
) -> None:
    leave(spool, name, has_taken=has_taken)

    assert Leftovers(spool, ORDERS, ignore).deliver()

    assert names_in(orders) == (["1", "2"] if has_taken else [])


@pytest.mark.parametrize("name", [OPEN, SEALED])
def test_what_was_taken_is_found_by_its_id(spool: Spool, name: str) -> None:
    leave(spool, name)
    finder = Finder(spool, DoneBatches(spool), BILLS, [])

    assert [*finder.find(MessageId("taken"))] == [f"new/{name}/.bills:taken"]
    assert finder.missing([MessageId("taken"), MessageId("other")]) == {"other"}


@pytest.mark.parametrize(("name", "has_taken"), [(OPEN, True), (OPEN, False), (SEALED, True)])
def test_what_it_publishes_is_found_by_its_id(spool: Spool, name: str, *, has_taken: bool) -> None:
    leave(spool, name, has_taken=has_taken)
    finder = Finder(spool, DoneBatches(spool), ORDERS, [])

    assert [*finder.find(MessageId("1"))] == ([f"new/{name}/orders:1"] if has_taken else [])
    assert finder.missing([MessageId("1")]) == (set() if has_taken else {"1"})


@pytest.mark.parametrize(("queue", "own"), [(ORDERS, "1"), (BILLS, "taken")])
def test_what_a_sweep_seals_meanwhile_is_found_by_its_id(
    spool: Spool, queue: QueueName, own: str
) -> None:
    leave(spool, OPEN)
    finder = Finder(spool, DoneBatches(spool), queue, [])

    spool.rename_within(Folder.NEW, OPEN, SEALED)

    assert len([*finder.find(MessageId(own))]) == 1


def test_fsck_says_what_will_become_of_it(spool: Spool, orders: Path) -> None:
    leave(spool, OPEN)

    Fsck(spool).assert_mends(
        "batch", f"new/{OPEN}", "a batch that is published, not delivered",
        "delivered 2 messages to their queues",
    )  # fmt: skip

    assert names_in(orders) == ["1", "2"]
