"""VSQS: waiting for messages and for room, with file system events and without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn, cast

import pytest

from mq.disk.files import Files
from mq.disk.listing import list_at_once
from mq.spool.watch import Watch
from tests.support.processes import wait_until
from tests.support.vsqs import in_another_process, wait_until_blocked
from vsqs.bell import Bell
from vsqs.limits import RESCAN_SECONDS
from vsqs.queue import Queue, QueueFullException

PUBLISH = """
import sys
from vsqs.queue import Queue
Queue(sys.argv[1]).publish(sys.argv[2].encode())
"""
DELETE = """
import sys
from vsqs.queue import Queue
print(Queue(sys.argv[1]).delete(sys.argv[2]))
"""


# Waiting


def test_receive_returns_nothing_when_its_time_is_over(queue: Queue) -> None:
    assert queue.receive(timeout=0) == (None, None)
    assert queue.receive(timeout=0.02) == (None, None)


def test_receive_waits_for_a_message_of_another_process(
    queue: Queue, folder: Path, pool: ThreadPoolExecutor
) -> None:
    received = pool.submit(queue.receive)
    wait_until_blocked(received, queue)

    in_another_process(PUBLISH, folder, "from afar").communicate()

    assert received.result(10)[1] == b"from afar"


def test_receive_is_woken_by_the_event_and_not_by_the_rescan(
    queue: Queue, folder: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vsqs.folder.RESCAN_SECONDS", 1000.0)
    received = pool.submit(queue.receive)
    wait_until_blocked(received, queue)

    (folder / "5.new").write_bytes(b"by hand")
    (folder / "5.new").rename(folder / "5")

    assert received.result(10) == ("5", b"by hand")


def test_receive_waits_for_a_lease_to_end(queue: Queue) -> None:
    """No event tells of that."""
    message_id = queue.publish(b"body")
    queue.receive(visibility_timeout=0.2)

    assert queue.receive(timeout=30) == (message_id, b"body")


def test_publish_waits_for_room(folder: Path, queue: Queue, pool: ThreadPoolExecutor) -> None:
    with Queue(folder, capacity=1) as limited:
        first = limited.publish(b"first")
        second = pool.submit(limited.publish, b"second")
        wait_until_blocked(second, limited)

        assert in_another_process(DELETE, folder, first).communicate()[0] == "True\n"

        assert queue.receive(timeout=10) == (second.result(10), b"second")


# Without events


@pytest.mark.usefixtures("no_events")
def test_without_events_everything_works(folder: Path, pool: ThreadPoolExecutor) -> None:
    with Queue(folder, capacity=2) as queue, Queue(folder) as other:
        ids = [other.publish(b"%d" % n) for n in range(2)]
        with pytest.raises(QueueFullException):
            queue.publish(b"", timeout=0)
        assert queue.receive() == (ids[0], b"0")
        assert other.receive(visibility_timeout=0.1) == (ids[1], b"1")
        assert queue.receive(timeout=30) == (ids[1], b"1")
        for each in ids:
            assert other.delete(each)
        received = pool.submit(queue.receive)
        wait_until_blocked(received, queue)
        in_another_process(PUBLISH, folder, "from afar").communicate()
        assert received.result(RESCAN_SECONDS + 20)[1] == b"from afar"


def test_a_rescan_finds_what_no_event_told_of(
    queue: Queue, folder: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No events come where another machine writes to the folder."""
    silent, other_end = os.pipe()
    monkeypatch.setattr("vsqs.folder.Watch.read", lambda _: [])
    monkeypatch.setattr("vsqs.folder.Watch.fileno", lambda _: silent)
    received = pool.submit(queue.receive)
    wait_until_blocked(received, queue)

    in_another_process(PUBLISH, folder, "from afar").communicate()

    assert received.result(RESCAN_SECONDS + 20)[1] == b"from afar"
    os.close(silent)
    os.close(other_end)


def test_where_the_limit_of_inotify_is_reached_a_receive_is_woken(folder: Path) -> None:
    """A user namespace has a limit of its own."""
    unshare = ["unshare", "--user", "--map-root-user"]
    limit = "/proc/sys/user/max_inotify_instances"
    if shutil.which("unshare") is None:
        pytest.skip("unshare is missing: install the package util-linux")
    tried = subprocess.run([*unshare, "sh", "-c", f"echo 0 > {limit}"], check=False)
    if tried.returncode:
        pytest.skip("this user may not make a user namespace")
    code = "import sys; from vsqs.queue import Queue; print(Queue(sys.argv[1]).receive()[1])"
    receiver = subprocess.Popen(
        [*unshare, "sh", "-c", f'echo 0 > {limit}; exec "$@"', "sh", sys.executable, "-c", code,
         str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    wait_until(folder.exists)

    with Queue(folder) as queue:
        queue.publish(b"from afar")
        assert receiver.communicate(timeout=30)[0] == "b'from afar'\n"


def test_what_a_signals_handler_raises_loses_no_event(
    queue: Queue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_and_interrupt(watch: Watch) -> NoReturn:
        monkeypatch.setattr("vsqs.folder.Watch.read", read)
        assert read(watch)
        raise KeyboardInterrupt

    read = Watch.read
    queue.receive(timeout=0)
    (folder / "5").write_bytes(b"first")
    monkeypatch.setattr("vsqs.folder.Watch.read", read_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        queue.receive(timeout=0)

    (folder / "6").write_bytes(b"second")

    assert queue.receive(timeout=0) == ("5", b"first")


def test_what_a_signals_handler_raises_leaves_the_lock_as_it_was() -> None:
    lock = _InterruptedLock()
    bell = Bell(cast(threading.Lock, lock))
    silent, other_end = os.pipe()

    with pytest.raises(KeyboardInterrupt), lock.held:
        bell.wait(silent, 10)

    assert not lock.held.locked()
    bell.close(Files())
    os.close(silent)
    os.close(other_end)


class _InterruptedLock:
    """A handler raises as soon as it is released."""

    def __init__(self) -> None:
        self.held = threading.Lock()
        self.acquire = self.held.acquire

    def release(self) -> NoReturn:
        self.held.release()
        raise KeyboardInterrupt


def lose_events(folder: Path) -> None:
    """Let more happen in a folder than a watch keeps."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        pytest.skip(f"this system keeps {limit} events")
    for _ in range(limit // 2 + 10):
        (folder / "x").touch()
        (folder / "x").unlink()


@pytest.mark.slow
def test_events_that_were_lost_are_made_up_for(queue: Queue, folder: Path) -> None:
    lose_events(folder)
    (folder / "5").write_bytes(b"body")

    assert queue.receive(timeout=0) == ("5", b"body")


def test_a_listing_that_missed_what_was_renamed_meanwhile_keeps_the_order(
    queue: Queue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is read while a file in it is renamed may show neither of its names."""

    def list_and_miss(fd: int) -> list[tuple[bytes, int]]:
        monkeypatch.setattr("vsqs.listing.list_at_once", list_at_once)
        for name in ("5", "6"):
            (folder / f"{name}.new").write_text(name)
            (folder / f"{name}.new").rename(folder / name)
        return [each for each in list_at_once(fd) if each[0] != b"5"]

    lose_events(folder)
    monkeypatch.setattr("vsqs.listing.list_at_once", list_and_miss)

    assert [queue.receive(timeout=0)[0] for _ in range(2)] == ["5", "6"]
