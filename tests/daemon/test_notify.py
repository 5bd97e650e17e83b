"""What systemd is told, over a real notification socket."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mq.daemon.notify import Notifier, beat_forever
from mq.errors import StoreUnavailable
from mq.store.store import Store
from tests.support.faults import WatchedFiles
from tests.support.processes import Process, wait_until
from tests.support.stores import eventually, store_on


class Systemd:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(100)

    def next(self) -> str:
        return self._socket.recv(4096).decode()

    def next_but_beats(self) -> str:
        while (told := self.next()) == "WATCHDOG=1":
            pass
        return told

    def told_by_now(self) -> list[str]:
        self._socket.setblocking(False)
        told = []
        try:
            while True:
                told.append(self.next())
        except BlockingIOError:
            return told
        finally:
            self._socket.settimeout(100)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    other_end = Systemd(tmp_path / "notify")
    yield other_end
    other_end.close()


@pytest.fixture
def notifier(systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> Notifier:
    monkeypatch.setenv("NOTIFY_SOCKET", str(systemd.path))
    monkeypatch.setenv("WATCHDOG_USEC", "50000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    return Notifier()


def start(systemd: Systemd, tmp_path: Path, processes: list[Process], **more: str) -> Process:
    flags = [f"--root={tmp_path / 'root'}", "--port=0", "--admin=", "--standalone"]
    environment = {"NOTIFY_SOCKET": str(systemd.path)} | more
    process = Process("mq", *flags, log=tmp_path / "log", **environment)
    processes.append(process)
    return process


def test_a_server_says_when_it_is_ready_reloading_and_stopping(
    systemd: Systemd, tmp_path: Path, processes: list[Process]
) -> None:
    process = start(systemd, tmp_path, processes)

    assert systemd.next() == "READY=1"
    assert "event=listening" in process.log()
    process.popen.send_signal(signal.SIGHUP)
    reloading, monotonic = systemd.next().split("\n")
    assert reloading == "RELOADING=1"
    assert monotonic.partition("=")[0] == "MONOTONIC_USEC"
    assert int(monotonic.partition("=")[2]) > 0
    assert systemd.next() == "READY=1"
    process.popen.terminate()
    assert systemd.next() == "STOPPING=1"
    assert process.popen.wait(30) == 0
    assert systemd.told_by_now() == []


def test_a_server_beats_for_the_watchdog_and_leaves_no_probe(
    systemd: Systemd, tmp_path: Path, processes: list[Process]
) -> None:
    process = start(systemd, tmp_path, processes, WATCHDOG_USEC="2000000")

    assert systemd.next_but_beats() == "READY=1"
    assert [systemd.next() for _ in range(3)] == ["WATCHDOG=1"] * 3
    assert process.stop() == 0
    assert os.listdir(tmp_path / "root" / "new") == []


def test_a_stopped_server_does_not_beat(
    systemd: Systemd, tmp_path: Path, processes: list[Process]
) -> None:
    process = start(systemd, tmp_path, processes, WATCHDOG_USEC="200000")
    assert systemd.next_but_beats() == "READY=1"
    systemd.next()

    process.popen.send_signal(signal.SIGSTOP)
    state = Path(f"/proc/{process.popen.pid}/stat")
    wait_until(lambda: ") T " in state.read_text())
    systemd.told_by_now()

    assert systemd.told_by_now() == []
    process.popen.send_signal(signal.SIGCONT)
    assert systemd.next() == "WATCHDOG=1"


def test_children_are_not_given_the_variables(
    systemd: Systemd, tmp_path: Path, processes: list[Process]
) -> None:
    process = start(systemd, tmp_path, processes, WATCHDOG_USEC="2000000")
    children = Path(f"/proc/{process.popen.pid}/task/{process.popen.pid}/children")
    wait_until(lambda: process.log().count("event=configuration") == 3, 100)

    environments = [Path(f"/proc/{pid}/environ") for pid in children.read_text().split()]
    given = [re.search(b"NOTIFY|WATCHDOG", each.read_bytes()) for each in environments]
    assert given == [None, None]


def test_without_systemd_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    monkeypatch.setenv("WATCHDOG_USEC", "50000")

    notifier = Notifier()

    notifier.ready()
    assert notifier.watchdog_seconds == 0


def test_a_watchdog_of_another_process_is_not_ours(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(systemd.path))
    monkeypatch.setenv("WATCHDOG_USEC", "50000")
    monkeypatch.setenv("WATCHDOG_PID", "1")

    assert Notifier().watchdog_seconds == 0


def test_a_socket_of_the_abstract_kind_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"mq-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other_end:
        other_end.bind(f"\0{name}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")

        Notifier().ready()

        assert other_end.recv(100) == b"READY=1"


# The beat


async def beat_while(
    notifier: Notifier, probe: Callable[[], object], until: Callable[[], bool], alive: bool = True
) -> None:
    """Beat until the condition holds."""

    async def run_probe() -> None:
        outcome = probe()
        if isinstance(outcome, asyncio.Event):
            await outcome.wait()

    task = asyncio.create_task(beat_forever(notifier, run_probe, lambda: alive))
    async with asyncio.timeout(20):
        while not until():
            await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_each_beat_follows_a_probe(notifier: Notifier, systemd: Systemd) -> None:
    probes: list[int] = []

    await beat_while(notifier, lambda: probes.append(1), lambda: len(probes) == 5)

    beats = systemd.told_by_now()
    assert beats
    assert set(beats) == {"WATCHDOG=1"}
    assert len(beats) <= 5


async def test_a_probe_that_does_not_come_back_stops_the_beat(
    notifier: Notifier, systemd: Systemd
) -> None:
    never = asyncio.Event()

    with capture_logs() as logs:
        await beat_while(notifier, lambda: never, lambda: len(logs) >= 3)

    assert {each["event"].partition(":")[0] for each in logs} == {"no beat for the watchdog"}
    assert systemd.told_by_now() == []


@pytest.mark.parametrize("error", [StoreUnavailable("latched"), KeyError("a defect")])
async def test_a_refused_probe_is_an_answer_and_a_defect_is_not(
    notifier: Notifier, systemd: Systemd, error: Exception
) -> None:
    """A restart would mend neither a full disk nor a latched store. The next probe follows."""
    probes: list[int] = []

    def refuse() -> None:
        probes.append(1)
        raise error

    await beat_while(notifier, refuse, lambda: len(probes) == 5)

    assert ("WATCHDOG=1" in systemd.told_by_now()) == isinstance(error, StoreUnavailable)


async def test_a_dead_committer_stops_the_beat(notifier: Notifier, systemd: Systemd) -> None:
    probes: list[int] = []

    await beat_while(notifier, lambda: probes.append(1), lambda: len(probes) == 5, alive=False)

    assert systemd.told_by_now() == []


# The probe


async def test_the_probe_goes_the_way_of_a_publish_and_leaves_nothing(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        before, syncs = Counter(files.calls), files.syncs()

        await store.health.probe()

        assert {name: files.calls[name] - before[name] for name in ("write", "link", "unlink")} == {
            "write": 1, "link": 1, "unlink": 1,
        }  # fmt: skip
        assert files.syncs() > syncs
        assert os.listdir(disk / "new") == []


async def test_a_probe_waits_for_a_disk_that_does_not_come_back(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        gate = files.hold_back("sync", "sync_file_system")

        probe = asyncio.create_task(store.health.probe())
        await gate.reached()

        assert not probe.done()
        gate.open()
        await probe


async def test_a_probe_that_cannot_be_written_is_refused(root: Path) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        files.fail("write", code=errno.ENOSPC)

        with pytest.raises(StoreUnavailable, match="No space left"):
            await store.health.probe()

        assert os.listdir(root / "new") == []
        assert store.health.is_alive()


async def test_a_probe_whose_sync_fails_latches_the_store_for_a_while(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        files.fail("sync", "sync_file_system")

        with pytest.raises(StoreUnavailable, match="could not be synced"):
            await store.health.probe()

        await eventually(lambda: is_written(store))
        assert os.listdir(disk / "new") == []


async def is_written(store: Store) -> bool:
    try:
        await store.health.probe()
    except StoreUnavailable:
        return False
    return store.health.failure is None
