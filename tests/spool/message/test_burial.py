"""What a dead letter says of where it came from, and why."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.names import QueueName, is_dead_reason
from mq.spool.message.burial import (
    DEAD_ATTRIBUTE,
    Burial,
    burial_of,
    bury,
    change_burial,
    origin_of,
)
from mq.spool.root import open_root
from tests.support.faults import WatchedFiles, raising
from tests.support.messages import seal_of, write_message
from tests.support.redelivery import move_due

ORDERS, DEAD, OTHER = QueueName("orders"), QueueName("orders.dead"), QueueName("other")


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "message", os.O_CREAT | os.O_RDONLY)
    yield opened
    os.close(opened)


def test_it_is_a_name_and_a_text_that_a_person_can_read(fd: int) -> None:
    change_burial(Files(), fd, ORDERS, "bad address")

    assert os.getxattr(fd, DEAD_ATTRIBUTE) == b"orders bad address"
    assert burial_of(Files(), fd, DEAD) == Burial(ORDERS, "bad address")


def test_it_says_nothing_in_the_queue_that_the_message_died_in(fd: int) -> None:
    bury(Files(), fd, ORDERS)

    assert burial_of(Files(), fd, ORDERS) is None
    assert burial_of(Files(), fd, DEAD) == Burial(ORDERS, "max-receives")


def test_it_stays_on_the_way_from_one_queue_of_dead_letters_to_another(fd: int) -> None:
    bury(Files(), fd, ORDERS)

    assert change_burial(Files(), fd, DEAD, None) is None
    assert burial_of(Files(), fd, OTHER) == Burial(ORDERS, "max-receives")


def test_it_ends_once_a_redriven_message_goes_elsewhere(fd: int) -> None:
    bury(Files(), fd, ORDERS)

    change_burial(Files(), fd, ORDERS, None)

    assert burial_of(Files(), fd, OTHER) is None


def test_a_message_without_one_is_not_written_to(fd: int) -> None:
    files = WatchedFiles()
    files.fail("set_attribute")

    assert change_burial(files, fd, ORDERS, None) is None


def test_a_moved_message_of_a_fifo_queue_keeps_where_it_was_sent_and_is_not_dead(fd: int) -> None:
    line, third = QueueName("line.fifo"), QueueName("third.fifo")

    change_burial(Files(), fd, line, None)
    assert change_burial(Files(), fd, third, None) is None

    assert burial_of(Files(), fd, OTHER) is None
    assert origin_of(Files(), fd, OTHER) == line
    assert origin_of(Files(), fd, line) is None


def test_a_redriven_message_of_a_fifo_queue_that_goes_elsewhere_was_sent_there(fd: int) -> None:
    line = QueueName("line.fifo")
    bury(Files(), fd, line)

    change_burial(Files(), fd, line, None)

    assert burial_of(Files(), fd, OTHER) is None
    assert origin_of(Files(), fd, OTHER) == line


def test_a_message_that_dies_in_another_fifo_queue_keeps_where_it_was_sent(fd: int) -> None:
    sent, line, third = map(QueueName, ("sent.fifo", "line.fifo", "third.fifo"))
    change_burial(Files(), fd, sent, None)

    bury(Files(), fd, line)

    assert os.getxattr(fd, DEAD_ATTRIBUTE) == b"sent.fifo:line.fifo max-receives"
    assert burial_of(Files(), fd, sent) == Burial(line, "max-receives", sent)
    assert burial_of(Files(), fd, line) is None
    assert origin_of(Files(), fd, third) == sent

    change_burial(Files(), fd, sent, None)
    assert os.getxattr(fd, DEAD_ATTRIBUTE) == b"sent.fifo:line.fifo max-receives"

    change_burial(Files(), fd, line, None)
    assert os.getxattr(fd, DEAD_ATTRIBUTE) == b"sent.fifo"

    bury(Files(), fd, third)
    bury(Files(), fd, sent)
    assert os.getxattr(fd, DEAD_ATTRIBUTE) == b"sent.fifo max-receives"


def test_a_standard_queue_in_which_a_message_dies_again_is_the_only_one_named(fd: int) -> None:
    bury(Files(), fd, ORDERS)

    bury(Files(), fd, OTHER)

    assert os.getxattr(fd, DEAD_ATTRIBUTE) == b"other max-receives"


def test_a_message_is_moved_without_a_reason_also_when_the_disk_has_no_room(fd: int) -> None:
    files = WatchedFiles()
    files.fail("set_attribute", code=errno.ENOSPC, times=2)

    assert change_burial(files, fd, QueueName("line.fifo"), None) is None
    with pytest.raises(OSError, match="No space"):
        change_burial(files, fd, QueueName("line.fifo"), "bad address")


@pytest.mark.parametrize(
    "value",
    [b"", b"orders", b"orders ", b" text", b".hidden text", b"orders a\nb", b"orders \xff",
     b":orders text", b"sent:orders text", b"a.fifo:b.fifo:orders text", b"a.fifo: text"],
)  # fmt: skip
def test_what_a_person_wrote_there_and_no_header_can_carry_counts_as_none(
    fd: int, value: bytes
) -> None:
    os.setxattr(fd, DEAD_ATTRIBUTE, value)

    assert burial_of(Files(), fd, OTHER) is None


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("x", True), ("bad address: no street", True), ("x" * 255, True), ("x" * 256, False),
     ("", False), (" x", False), ("x ", False), ("a\tb", False), ("a\nb", False),
     ("caf\u00e9", False)],
)  # fmt: skip
def test_a_reason_is_what_a_header_can_carry(text: str, is_one: bool) -> None:
    assert is_dead_reason(text) is is_one


# The mover


@pytest.fixture
def overdue(root: Path) -> Path:
    """A message that was received twice, and whose lease is over."""
    spool, _ = open_root(root, 0o700, Files())
    spool.close()
    (root / "queues/orders").mkdir()
    return write_message(root / "delay/orders:1", seal=seal_of(b"body", count=2, lease=1))


def test_the_mover_says_where_a_dead_letter_came_from(root: Path, overdue: Path) -> None:
    move_due(root, max_receives=2)

    with open(root / "queues/orders.dead/1", "rb") as file:
        assert burial_of(Files(), file.fileno(), DEAD) == Burial(ORDERS, "max-receives")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_keeps_no_dead_letter_in_its_queue(
    root: Path, overdue: Path, code: int
) -> None:
    files = WatchedFiles()
    files.before["set_attribute"] = raising(code)

    move_due(root, files, 2)

    assert (root / "queues/orders.dead/1").exists()


def test_a_broken_disk_does(root: Path, overdue: Path) -> None:
    files = WatchedFiles()
    files.fail("set_attribute")

    move_due(root, files, 2)

    assert overdue.exists()
