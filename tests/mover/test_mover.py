"""The mover: due messages go to their places, after a look under the lock; none is destroyed."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from mq.config import MoverConfig
from mq.disk.files import Files
from mq.errors import ExitCode, StartRefused
from mq.lifecycle import Folder
from mq.spool.message.held import Held, hold
from mq.spool.spool import Spool
from mq_mover.mover import Mover
from tests.support.faults import WatchedFiles, raising
from tests.support.messages import (
    DAY_NS,
    SECOND_NS,
    names_in,
    read_seal,
    seal_of,
    stamp,
    write_message,
)
from tests.support.processes import wait_until

MakeMover = Callable[..., Mover]


@pytest.fixture
def delay(spool: Spool) -> Path:
    return spool.root / "delay"


@pytest.fixture
def make_mover(root: Path, files: WatchedFiles) -> Iterator[MakeMover]:
    """`make_mover(delay_seconds=5)` is a mover from `delay` to `queues`."""
    made: list[Mover] = []

    def make(source: str = "delay", **settings: Any) -> Mover:
        made.append(Mover(MoverConfig(root / source, root / "queues", **settings), files))
        return made[-1]

    yield make
    for mover in made:
        mover.close()


def _run_once(mover: Mover) -> None:
    mover.scan()
    mover.move_due()


def _leased(delay: Path, message_id: str, due_in_seconds: float | None, count: int = 1) -> Path:
    """A message under a lease; without a stamp it was moved here by something else."""
    aside = delay.parent / "aside"
    write_message(aside, seal=seal_of(b"body", count=count), due_in_seconds=due_in_seconds)
    return aside.rename(delay / f"orders:{message_id}")


def test_what_is_due_at_the_start_is_moved_and_the_rest_is_not(
    delay: Path, orders: Path, make_mover: MakeMover
) -> None:
    _leased(delay, "past", -1)
    _leased(delay, "future", 1000)

    _run_once(make_mover())

    assert (names_in(orders), names_in(delay)) == (["past"], ["orders:future"])
    assert read_seal(orders / "past").receive_count == 1


def test_file_without_a_stamp_waits_for_the_delay(
    delay: Path, orders: Path, make_mover: MakeMover
) -> None:
    arrived = _leased(delay, "1", None)

    _run_once(make_mover(delay_seconds=1000))
    assert arrived.exists()

    _run_once(make_mover(delay_seconds=0))
    assert names_in(orders) == ["1"]


def test_stamp_overrides_the_delay(delay: Path, orders: Path, make_mover: MakeMover) -> None:
    _leased(delay, "late", 1000)
    _leased(delay, "soon", 0.02)
    patient, hasty = make_mover(delay_seconds=500), make_mover(delay_seconds=0)

    def is_moved() -> bool:
        _run_once(patient)
        return names_in(orders) == ["soon"]

    wait_until(is_moved)
    _run_once(hasty)
    assert names_in(delay) == ["orders:late"]


def test_stamp_of_a_broken_clock_is_due_now(
    delay: Path, orders: Path, make_mover: MakeMover
) -> None:
    _leased(delay, "1", 401 * DAY_NS / SECOND_NS)
    _leased(delay, "2", 399 * DAY_NS / SECOND_NS)

    _run_once(make_mover())

    assert names_in(orders) == ["1"]


def test_lease_prolonged_after_the_mover_looked_wins(
    delay: Path, orders: Path, files: WatchedFiles, make_mover: MakeMover
) -> None:
    leased = _leased(delay, "1", -1)
    files.before["lock"] = lambda *_: stamp(leased, 1000)

    _run_once(make_mover())

    assert leased.exists()
    assert names_in(orders) == []


def test_message_that_a_server_holds_is_moved_once_it_lets_go(
    spool: Spool, delay: Path, orders: Path, make_mover: MakeMover
) -> None:
    leased = _leased(delay, "1", -1)
    mover = make_mover()
    held = hold(Files(), spool.fd(Folder.DELAY), leased.name)
    assert isinstance(held, Held)
    with held:
        _run_once(mover)
        assert leased.exists()

    def is_moved() -> bool:
        mover.move_due()
        return names_in(orders) == ["1"]

    wait_until(is_moved)


def test_message_of_a_missing_queue_stays_and_is_reported_once(
    delay: Path, root: Path, make_mover: MakeMover
) -> None:
    stray = write_message(delay / "gone:1")
    mover = make_mover()

    with capture_logs() as logs:
        _run_once(mover)
        _run_once(mover)

    assert stray.exists()
    assert [(entry["name"], entry["why"]) for entry in logs] == [
        ("gone:1", f"there is no folder for it in {root / 'queues'}")
    ]
    (root / "queues" / "gone").mkdir()
    _run_once(mover)
    assert names_in(root / "queues" / "gone") == ["1"]


def test_taken_name_is_reported_and_not_replaced(
    delay: Path, orders: Path, make_mover: MakeMover
) -> None:
    leased, other = _leased(delay, "1", -1), write_message(orders / "1", b"other")

    with capture_logs() as logs:
        _run_once(make_mover())

    assert (leased.read_bytes(), other.read_bytes()) == (b"body", b"other")
    assert [entry["why"] for entry in logs] == ["the destination has another file of that name"]


def test_what_is_no_message_is_left_and_reported(
    delay: Path, orders: Path, make_mover: MakeMover
) -> None:
    (delay / "orders:folder").mkdir()
    (delay / "orders:link").symlink_to("nowhere")
    os.mkfifo(delay / "orders:fifo")
    write_message(delay / ".hidden")
    _leased(delay, "1", -1)

    with capture_logs() as logs:
        _run_once(make_mover())

    assert names_in(delay) == ["orders:fifo", "orders:folder", "orders:link"]
    assert sorted(entry["name"] for entry in logs) == names_in(delay)
    assert (names_in(orders), (delay / ".hidden").exists()) == (["1"], True)


def test_file_that_may_not_be_opened_keeps_no_other_from_moving(
    delay: Path, orders: Path, files: WatchedFiles, make_mover: MakeMover
) -> None:
    for number in range(3):
        _leased(delay, str(number), -1)
    files.fail("open_message", code=errno.EACCES)

    _run_once(make_mover())

    assert len(names_in(orders)) == 2


def test_message_received_too_often_goes_to_the_dead_letters(
    root: Path, delay: Path, orders: Path, make_mover: MakeMover
) -> None:
    _leased(delay, "often", -1, count=3)
    _leased(delay, "seldom", -1, count=2)

    _run_once(make_mover(max_receives=3))

    assert names_in(root / "queues" / "orders.dead") == ["often"]
    assert names_in(orders) == ["seldom"]


def test_any_folder_can_be_a_source_and_plain_names_keep_theirs(
    spool: Spool, orders: Path, make_mover: MakeMover
) -> None:
    root = spool.root
    write_message(root / "new" / "orders:1")
    write_message(root / "new" / "plain")

    _run_once(make_mover("new"))

    assert names_in(orders) == ["1"]
    assert (root / "queues" / "plain").is_file()


def test_message_whose_publisher_lives_is_not_taken_out_of_new(
    spool: Spool, make_mover: MakeMover
) -> None:
    published = write_message(spool.root / "new" / "orders:1")
    publisher = hold(Files(), spool.fd(Folder.NEW), published.name)
    assert isinstance(publisher, Held)

    with publisher:
        _run_once(make_mover("new"))

    assert published.exists()


def test_mover_between_file_systems_is_refused(root: Path, spool: Spool) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == root.stat().st_dev:
        pytest.skip("/dev/shm is not another file system here")

    with pytest.raises(StartRefused, match="different file systems") as refused:
        Mover(MoverConfig(memory, root / "queues"), Files())

    assert refused.value.exit_code is ExitCode.FOLDERS


def test_mover_without_its_folder_is_refused(root: Path, spool: Spool) -> None:
    with pytest.raises(StartRefused, match="make it, or start mq first") as refused:
        Mover(MoverConfig(root / "nowhere", root / "queues"), Files())

    assert refused.value.exit_code is ExitCode.ROOT


def test_thousands_of_due_messages_are_moved_in_one_pass(
    delay: Path, orders: Path, make_mover: MakeMover
) -> None:
    for number in range(3000):
        (delay / f"orders:{number}").touch()

    _run_once(make_mover())

    assert len(names_in(orders)) == 3000


def test_mover_without_events_scans_every_second_until_there_are_some(
    delay: Path,
    orders: Path,
    files: WatchedFiles,
    make_mover: MakeMover,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run() -> None:
        with suppress(SystemExit):
            mover.run()

    monkeypatch.setattr("mq_mover.mover.Watch.__init__", raising(errno.EMFILE))
    mover = make_mover()
    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: files.calls["open_folder"] > 2)
    _leased(delay, "1", 0.001)

    wait_until(lambda: names_in(orders) == ["1"])
    monkeypatch.undo()
    wait_until(lambda: mover._watch is not None)
    files.before["open_folder"] = lambda *_: sys.exit()
    mover._next_scan = 0.0
    (delay / "2").touch()  # It ends the wait for events.
    thread.join()
