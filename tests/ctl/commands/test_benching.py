"""`mqctl bench`: it measures, and leaves nothing. How fast anything is does not matter here."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Never

import pytest

from mq.ctl.bench.endpoints import Endpoints
from mq.ctl.bench.phases import PhaseRate, median_of
from mq.ctl.commands.benching import _measuring
from mq.ctl.common_flags import CommonFlags
from mq.errors import ExitCode
from mq.names import QueueName
from tests.support.mqctl import Ctl, assert_refused, without_ours
from tests.support.processes import Server, wait_until

FEW = ["bench", "-n", "20", "-c", "3", "--rounds", "2"]


@pytest.fixture
def bench(server: Server) -> Ctl:
    return Ctl(f"--url={server.url}")


@contextmanager
def closing_all(*descriptors: int) -> Iterator[None]:
    try:
        yield
    finally:
        for each in descriptors:
            os.close(each)


def queues_of(server: Server) -> list[str]:
    return sorted(path.name for path in (server.root / "queues").glob("bench-*"))


def test_each_phase_has_its_figures(bench: Ctl, server: Server) -> None:
    header, *rows = bench.ok(*FEW).out.decode().splitlines()
    documents = bench.ok(*FEW, "--json").lines()

    assert header.split() == ["PHASE", "PER", "SECOND", "P50", "MS", "P99", "MS"]
    phases = ["publish", "receive", "remove", "cycle"]
    assert [row.split()[0] for row in rows] == phases
    assert [each.pop("phase") for each in documents] == phases
    for figures in documents:
        assert list(figures) == ["per_second", "p50_ms", "p99_ms"]
        assert all(figure > 0 for figure in figures.values())
    assert queues_of(server) == []


def test_a_terminal_shows_first_what_is_measured(server: Server) -> None:
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)  # No line at all is a failure too.
    command = [sys.executable, "-m", "mq.ctl", *FEW, f"--url={server.url}"]

    with closing_all(ours, theirs):
        subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, check=True, timeout=60,
                       env=without_ours())  # fmt: skip
        said = os.read(ours, 4096).decode()

    assert said.splitlines()[0] == (
        f"measuring {server.url}: 2 x 20 messages of 256 bytes in each phase, over 3 connections"
    )


def test_it_works_over_a_unix_socket_and_with_a_token(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    tokens, socket = tmp_path / "tokens", tmp_path / "mq.sock"
    tokens.write_text("bench read,write,admin kT3vVt9xkq3mP2sYw8LrBg\n")
    tokens.chmod(0o600)
    start_server(f"--socket={socket}", f"--token-file={tokens}")
    ctl = Ctl(f"--url=unix:{socket}")

    assert ctl(*FEW, MQCTL_TOKEN="kT3vVt9xkq3mP2sYw8LrBg").code == 0
    assert "401" not in ctl(*FEW, MQCTL_TOKEN="kT3vVt9xkq3mP2sYw8LrBg").err
    assert ctl(*FEW, MQCTL_TOKEN="another").code != 0


@pytest.fixture
def measuring() -> Iterator[Callable[[Server], subprocess.Popen[str]]]:
    """Starts a long run on a server; it ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(server: Server) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "mq.ctl", "bench", "-n", "1000000", f"--url={server.url}"]
        started.append(
            subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=without_ours())
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_message_comes_back_while_it_measures_and_a_signal_deletes_the_queue(
    server: Server, measuring: Callable[[Server], subprocess.Popen[str]], number: signal.Signals
) -> None:
    process = measuring(server)
    wait_until(lambda: queues_of(server), 60)
    [queue] = queues_of(server)
    wait_until(lambda: "visibility=3600" in settings_in(server, queue), 60)

    process.send_signal(number)

    assert process.communicate(timeout=60)[1].strip() == ""
    assert process.returncode == 128 + number
    assert queues_of(server) == []


def settings_in(server: Server, queue: str) -> str:
    path = server.root / "queues" / queue / ".settings"
    return path.read_text() if path.exists() else ""


def test_a_queue_that_could_not_be_deleted_is_named(
    start_server: Callable[..., Server], measuring: Callable[[Server], subprocess.Popen[str]]
) -> None:
    server = start_server()
    process = measuring(server)
    wait_until(lambda: any((server.root / "queues").glob("bench-*/*-*")), 60)

    server.kill()

    _, said = process.communicate(timeout=60)
    assert process.returncode == ExitCode.UNAVAILABLE
    [queue] = queues_of(server)
    assert f"queue {queue} may still be there" in said


def test_an_interrupt_before_the_first_request_leaves_no_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The interrupt comes while the event loop is made, and a warning would fail the test."""

    def interrupt() -> Never:
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio.events, "new_event_loop", interrupt)
    measure = _measuring(CommonFlags("http://127.0.0.1:1", None, as_json=False), 1, 1, 1)

    with pytest.raises(KeyboardInterrupt):
        measure(QueueName("bench"))


def test_it_measures_servers_only(bench: Ctl, root: Path) -> None:
    assert_refused(Ctl(f"--root={root}")("bench"), ExitCode.USAGE, "use --url")
    assert_refused(
        Ctl("--url=http://127.0.0.1:1")("bench"), ExitCode.UNAVAILABLE, "does not answer"
    )
    assert_refused(bench("bench", "-c", "0"), ExitCode.USAGE, "--connections")


def test_a_median_is_of_each_figure() -> None:
    rounds = [PhaseRate(1, 10, 3, 5, 0), PhaseRate(2, None, 2, 9, 0.5), PhaseRate(9, 30, 1, 7, 1)]

    assert median_of(rounds) == PhaseRate(2, None, 2, 7, 0.5)
    assert median_of(rounds[::2]).cpu_us == 20


@pytest.mark.parametrize(
    ("answer", "length"),
    [
        (b"HTTP/1.1 202 Accepted\r\n\r\n", 25),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 41),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", 0),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", 0),
        (b"HTTP/1.1 200 O", 0),
    ],
)
def test_an_answer_ends_where_its_length_says(answer: bytes, length: int) -> None:
    assert Endpoints().read(answer) == length


def test_what_is_no_success_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="503 Service"):
        Endpoints().check(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
    with pytest.raises(RuntimeError, match="207"):
        Endpoints().check(b"HTTP/1.1 207 Multi-Status\r\n\r\n")
