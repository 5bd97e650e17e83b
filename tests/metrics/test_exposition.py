"""`--metrics-port` of mover and reaper: only when asked, and only where it is free."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.processes import Process, Server, wait_until


@pytest.fixture
def server(start_server: Callable[..., Server]) -> Server:
    return start_server("--admin=127.0.0.1:0")


def has_started(process: Process) -> bool:
    return "event=configuration" in process.log()


def has_two_threads(process: Process) -> bool:
    """Whether there is the main thread, the one that takes signals, and no other."""
    return len(list(Path(f"/proc/{process.popen.pid}/task").iterdir())) == 2


def test_a_port_that_is_taken_is_refused_by_name(server: Server, tmp_path: Path) -> None:
    flags = [f"--source={server.root / 'remove'}", f"--metrics-port={server.admin_port}"]
    reaper = Process("mq_reaper", *flags, log=tmp_path / "log")

    assert reaper.popen.wait(100) == 69
    assert f"cannot listen on 127.0.0.1:{server.admin_port} for --metrics-port" in reaper.log()


@pytest.mark.parametrize("host", ["a..b", "n" * 64, "absent.invalid"])
def test_a_name_that_leads_nowhere_is_refused(server: Server, tmp_path: Path, host: str) -> None:
    flags = [f"--source={server.root / 'remove'}", f"--metrics-address={host}", "--metrics-port=0"]
    reaper = Process("mq_reaper", *flags, log=tmp_path / "log")

    assert reaper.popen.wait(100) == 69
    assert f"cannot listen on {host}:0 for --metrics-port" in reaper.log()


def test_without_the_flag_nothing_for_metrics_is_loaded(
    server: Server, tmp_path: Path, processes: list[Process]
) -> None:
    for module, flags in (
        (
            "mq_mover",
            (f"--source={server.root / 'delay'}", f"--destination={server.root / 'queues'}"),
        ),
        ("mq_reaper", (f"--source={server.root / 'remove'}",)),
    ):
        process = Process(module, *flags, log=tmp_path / f"{module}.log")
        processes.append(process)
        wait_until(partial(has_started, process), 100)
        # While it opens its folders, another one waits to tell of it.
        wait_until(partial(has_two_threads, process))
        assert "event=metrics" not in process.log()
