"""VSQS: the protocol letter by letter, seen in the names of the files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.descriptors import count_open
from tests.support.faults import WatchedFiles
from tests.support.vsqs import NS, PER_SECOND, Clock, OpenQueue, names_in
from vsqs.queue import Queue

# Names and states


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_a_message_goes_from_ready_to_consumed_to_nothing(
    open_queue: OpenQueue, folder: Path, clock: Clock, unit: str
) -> None:
    queue = open_queue(unit=unit, clock_ns=clock)
    now = clock.ns * PER_SECOND[unit] // NS

    message_id = queue.publish(b"two coffees")
    assert message_id == str(now)
    assert names_in(folder) == [message_id]
    assert (folder / message_id).read_bytes() == b"two coffees"

    assert queue.receive(visibility_timeout=2.5) == (message_id, b"two coffees")
    assert names_in(folder) == [f"{message_id}.{now + int(2.5 * PER_SECOND[unit])}"]

    assert queue.delete(message_id)
    assert names_in(folder) == []


def test_a_message_is_written_under_new_synced_and_then_renamed(folder: Path) -> None:
    files = WatchedFiles()
    seen: list[tuple[str, list[str]]] = []
    queue = Queue(folder, files=files)
    for call in ("write", "sync", "rename"):
        files.before[call] = lambda *_, call=call: seen.append((call, names_in(folder)))

    message_id = queue.publish(b"body")

    new, ready = [f"{message_id}.new"], [message_id]
    assert seen == [("write", new), ("sync", new), ("rename", new), ("sync", ready)]
    queue.close()


def test_a_timeout_ends_by_the_clock_of_whoever_looks(open_queue: OpenQueue, clock: Clock) -> None:
    ahead = Clock(clock.ns / NS + 60)
    one, other = open_queue(clock_ns=clock), open_queue(clock_ns=ahead)
    message_id = one.publish(b"two coffees")
    assert one.receive(visibility_timeout=90)[0] == message_id
    assert other.receive(timeout=0) == (None, None)

    ahead.go(31)

    assert other.receive(timeout=0)[0] == message_id


def test_the_oldest_is_taken_by_number(open_queue: OpenQueue, folder: Path) -> None:
    folder.mkdir()
    for name in ("100", "99", "1000"):
        (folder / name).write_text(name)

    queue = open_queue()

    assert [queue.receive()[0] for _ in range(3)] == ["99", "100", "1000"]


def test_an_older_message_that_appears_later_is_taken_first(
    open_queue: OpenQueue, folder: Path
) -> None:
    queue = open_queue()
    queue.publish(b"younger")
    (folder / "99").write_bytes(b"older")

    assert queue.receive() == ("99", b"older")


def test_foreign_files_are_ignored(open_queue: OpenQueue, folder: Path) -> None:
    folder.mkdir()
    foreign = ["README", "1.txt", "1.2.3", "-1", "+1", "01", "1_0", "1.", ".5", "1.new.new", " 1",
               "1.NEW", "1.05", "٣"]  # fmt: skip
    for name in foreign:
        (folder / name).write_text("foreign")
    (folder / "7").mkdir()
    (folder / "8").symlink_to("README")
    os.mkfifo(folder / "9")
    queue = open_queue(capacity=1)
    late = [folder / "10", folder / "11.5"]

    assert queue.size() == 0
    message_id = queue.publish(b"ours")
    for path in late:
        path.mkdir()
    assert queue.receive() == (message_id, b"ours")
    assert queue.receive(timeout=0) == (None, None)
    assert not queue.delete("7")
    queue.delete(message_id)
    assert names_in(folder) == sorted([*foreign, "7", "8", "9", "10", "11.5"])


def test_what_is_being_written_is_not_received_nor_counted(
    open_queue: OpenQueue, folder: Path
) -> None:
    queue = open_queue()
    (folder / "5.new").write_text("half")

    assert queue.receive(timeout=0) == (None, None)
    assert queue.size() == 0
    (folder / "5.new").rename(folder / "5")
    assert queue.receive(timeout=0) == ("5", b"half")


# The time in the name


def test_two_messages_of_one_instant_have_two_names(open_queue: OpenQueue, clock: Clock) -> None:
    one, other = open_queue(clock_ns=clock), open_queue(clock_ns=clock)

    ids = [queue.publish(b"") for queue in (one, other, one)]

    assert [int(each) for each in ids] == [int(ids[0]) + n for n in range(3)]


def test_a_clock_that_goes_back_keeps_order(open_queue: OpenQueue, clock: Clock) -> None:
    queue = open_queue(clock_ns=clock)
    first = queue.publish(b"first")
    clock.go(-3600)

    second = queue.publish(b"second")
    third = open_queue(clock_ns=clock).publish(b"third")

    assert [int(second), int(third)] == [int(first) + 1, int(first) + 2]
    assert [queue.receive()[1] for _ in range(3)] == [b"first", b"second", b"third"]


def test_a_clock_that_goes_back_names_no_message_as_one_before(
    open_queue: OpenQueue, clock: Clock
) -> None:
    """The one before may be deleted already, and another publisher may have made it."""
    queue, other = open_queue(clock_ns=clock), open_queue(clock_ns=clock)
    first = other.publish(b"")
    queue.delete(first)
    clock.go(-3600)

    assert int(queue.publish(b"")) > int(first)
    assert int(other.publish(b"")) > int(first)


def test_a_queue_that_is_opened_names_no_message_as_one_deleted_just_before(
    open_queue: OpenQueue, folder: Path
) -> None:
    ids = []
    for _ in range(30):
        queue = open_queue(sync=False)
        ids.append(int(queue.publish(b"")))
        queue.delete(ids[-1])

    assert ids == sorted(set(ids))


@pytest.mark.parametrize("state", ["", ".{expiry}", ".new"])
def test_the_same_time_in_any_state_is_not_taken_again(
    open_queue: OpenQueue, folder: Path, clock: Clock, state: str
) -> None:
    """It appears in the very moment in which our file is made."""
    files = WatchedFiles()
    queue = open_queue(clock_ns=clock, files=files)
    now = clock.ns // 1_000_000
    theirs = f"{now}{state.format(expiry=now + 5000)}"

    def appear(*_: object) -> None:
        files.before.clear()
        (folder / theirs).write_bytes(b"theirs")

    files.before["create"] = appear
    descriptors = count_open(folder)
    message_id = queue.publish(b"ours")

    assert int(message_id) == now + 1
    assert count_open(folder) == descriptors
    assert names_in(folder) == sorted([theirs, message_id])
    assert (folder / theirs).read_bytes() == b"theirs"
    assert (folder / message_id).read_bytes() == b"ours"


def test_a_message_never_appears_below_one_that_is_there(
    open_queue: OpenQueue, clock: Clock
) -> None:
    """A publisher that writes for long gets a new time at the end."""
    files = WatchedFiles()
    slow, quick = open_queue(clock_ns=clock, files=files), open_queue(clock_ns=clock)
    received: list[str | None] = []

    def meanwhile(*_: object) -> None:
        files.before.clear()
        quick.publish(b"quick")
        received.append(quick.receive()[0])

    files.before["write"] = meanwhile
    slow.publish(b"slow")
    received.append(quick.receive()[0])

    assert received == sorted(received, key=lambda each: int(str(each)))


def test_a_name_in_another_unit_is_warned_of(open_queue: OpenQueue, folder: Path) -> None:
    open_queue(unit="us").publish(b"body")

    with pytest.warns(UserWarning, match="unit='us'"):
        open_queue(unit="ms")


@pytest.mark.parametrize("visibility", [1e300, sys.float_info.max])
@pytest.mark.parametrize("unit", ["ms", "us"])
def test_a_message_that_is_hidden_for_ever_is_still_a_message(
    open_queue: OpenQueue, unit: str, visibility: float
) -> None:
    queue = open_queue(unit=unit)
    first, second = queue.publish(b"first"), queue.publish(b"second")

    assert queue.receive(visibility, timeout=0)[0] == first
    assert queue.receive(visibility, timeout=0)[0] == second

    other = open_queue(unit=unit)
    assert other.size() == 2
    assert other.receive(timeout=0) == (None, None)
    assert other.delete(first)
