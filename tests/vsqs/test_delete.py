"""VSQS: delete, size and capacity, and the released package beside ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mq.spool.watch import Change, Watch
from tests.support.faults import WatchedFiles
from tests.support.vsqs import OpenQueue, Other, in_another_process, names_in
from vsqs.queue import QueueFullException

OTHERS, DELETES = 1500, 60
WENT = Change.WENT
RENAME_ON_AND_ON = """
import os, sys
os.chdir(sys.argv[1])
for line in sys.stdin:
    name, expiry = line.strip(), 10**13
    try:
        os.rename(name, f"{name}.{expiry}")
        print("renamed", flush=True)
        while True:
            os.rename(f"{name}.{expiry}", name)
            expiry += 1
            os.rename(name, f"{name}.{expiry}")
    except FileNotFoundError:
        print("gone", flush=True)
"""

# Delete, size, capacity


def test_another_instance_deletes_whatever_the_state(open_queue: OpenQueue, folder: Path) -> None:
    queue, other = open_queue(), open_queue()
    ready, consumed = queue.publish(b""), queue.publish(b"")
    assert other.receive()[0] == ready

    assert queue.delete(ready)
    assert other.delete(consumed)

    assert names_in(folder) == []
    assert not other.delete(ready)


def test_delete_takes_away_nothing_else(open_queue: OpenQueue, folder: Path) -> None:
    folder.mkdir()
    others = ["1", "10", "100.5", "10.txt", "110"]
    for name in [*others, "11.99999999999999"]:
        (folder / name).touch()
    queue = open_queue()

    assert queue.delete("11")
    assert not any(queue.delete(each) for each in ("", "10.txt", "../10", "*", "1.5", None, "01"))  # type: ignore[arg-type]
    assert names_in(folder) == sorted(others)


def test_delete_leaves_what_is_being_written(open_queue: OpenQueue, folder: Path) -> None:
    """Its id is nobody's yet. Without it a publisher would lose its file in the middle."""
    queue = open_queue()
    (folder / "5").touch()
    (folder / "5.new").touch()

    assert queue.delete("5")

    assert names_in(folder) == ["5.new"]


def test_delete_looks_again_when_the_message_is_requeued_meanwhile(
    open_queue: OpenQueue, folder: Path
) -> None:
    files = WatchedFiles()
    queue = open_queue(files=files)
    message_id = queue.publish(b"")
    queue.receive(visibility_timeout=100)

    def requeue(*_: object) -> None:
        files.before.clear()
        [consumed] = folder.iterdir()
        consumed.rename(folder / message_id)

    files.before["unlink"] = requeue

    assert queue.delete(message_id)
    assert names_in(folder) == []


def test_a_delete_finds_a_message_whose_event_is_on_its_way(
    open_queue: OpenQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was requeued, and told of with the next event only, or by half: it went."""
    queue = open_queue()
    ids = [queue.publish(b""), queue.publish(b"")]
    queue.size()
    for message_id in ids:
        (folder / message_id).rename(folder / f"{message_id}.99999999999999")
    read = Watch.read

    monkeypatch.setattr(Watch, "read", lambda _: [])
    assert queue.delete(ids[0])
    monkeypatch.setattr(Watch, "read", lambda watch: [e for e in read(watch) if e.change is WENT])
    assert queue.delete(ids[1])

    assert names_in(folder) == []


@pytest.mark.slow
@pytest.mark.usefixtures("no_events")
def test_a_delete_misses_no_message_that_is_renamed_all_the_while(
    open_queue: OpenQueue, folder: Path
) -> None:
    """Requeued and received without a pause, in a folder that readdir(3) lists piece by piece."""
    queue = open_queue(sync=False)
    for number in range(OTHERS):
        (folder / str(number)).touch()

    with in_another_process(RENAME_ON_AND_ON, folder) as renamer:
        for _ in range(DELETES):
            message_id = queue.publish(b"")
            print(message_id, file=renamer.stdin, flush=True)
            assert renamer.stdout.readline() == "renamed\n"
            is_found = queue.delete(message_id)
            if not is_found:
                renamer.kill()
            assert is_found
            assert renamer.stdout.readline() == "gone\n"


def test_a_delete_of_what_is_not_there_ends_in_a_folder_that_changes_all_the_while(
    open_queue: OpenQueue,
) -> None:
    queue, other = open_queue(), open_queue()
    gone = queue.publish(b"")
    assert other.delete(gone)

    for _ in range(10):
        other.publish(b"")
        assert not queue.delete(gone)


def test_size_counts_ready_and_consumed(open_queue: OpenQueue) -> None:
    queue, other = open_queue(), open_queue()
    queue.publish(b"")
    queue.publish(b"")
    message_id, _ = other.receive()

    assert (queue.size(), other.size()) == (2, 2)
    other.delete(str(message_id))
    assert (queue.size(), other.size()) == (1, 1)


def test_a_full_queue_takes_no_more(open_queue: OpenQueue, folder: Path) -> None:
    queue = open_queue(capacity=2)
    first, second = queue.publish(b""), queue.publish(b"")
    queue.receive()

    with pytest.raises(QueueFullException, match="capacity 2"):
        queue.publish(b"third", timeout=0.05)
    assert [re.sub(r"\..*", "", name) for name in names_in(folder)] == [first, second]
    queue.delete(first)
    queue.publish(b"third", timeout=0)


def test_capacity_holds_for_publishers_side_by_side(open_queue: OpenQueue, folder: Path) -> None:
    """The other one fills the queue while this one writes."""
    files = WatchedFiles()
    queue, other = open_queue(capacity=1, files=files), open_queue(capacity=1)

    def meanwhile(*_: object) -> None:
        files.before.clear()
        other.publish(b"theirs")

    files.before["write"] = meanwhile
    with pytest.raises(QueueFullException):
        queue.publish(b"ours", timeout=0)

    assert len(names_in(folder)) == 1


# Beside the released package


def test_microseconds_are_shared_with_the_released_package(
    open_queue: OpenQueue, folder: Path
) -> None:
    queue, other = open_queue(unit="us"), Other(folder, "us")

    one, two = queue.publish(b"ours"), other.publish(b"theirs")
    three = queue.publish(b"ours again")
    assert int(one) < int(two) < int(three)

    assert other.receive() == (one, b"ours")
    assert queue.receive() == (two, b"theirs")
    assert queue.size() == 3
    other.delete(two)
    assert queue.delete(one)
    assert queue.size() == 1

    assert other.receive(visibility_seconds=0.01) == (three, b"ours again")
    assert queue.receive(timeout=5) == (three, b"ours again")
    queue.delete(three)
    assert other.receive() is None
    queue.publish(b"")
    assert queue.receive(visibility_timeout=0)[0]
    assert other.receive() is not None
