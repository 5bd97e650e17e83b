"""The image's health check, on the gateway and on `mq`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.certificates import make_certificate
from tests.support.processes import FreshServer, Process, Server, free_port


@pytest.fixture
def start(tmp_path: Path, processes: list[Process]) -> Callable[..., Server]:
    """`start("mq_sqs", *flags)` starts a process whose command line the check can read."""

    def begin(module: str, *flags: str) -> Server:
        log = tmp_path / "log"
        processes.append(server := FreshServer(tmp_path / "root", *flags, log=log, module=module))
        return server

    return begin


def why_not_healthy(process: Process) -> str:
    command = [sys.executable, "-m", "mq_sqs.healthy", str(process.popen.pid)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode == 0) == (done.stderr == "")
    return done.stderr


def test_a_gateway_is_asked_at_its_admin_listener_over_tls_too(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    pair = make_certificate(tmp_path, "mq.example.org")
    gateway = start("mq_sqs", f"--admin=127.0.0.1:{free_port()}", *pair.flags())

    assert why_not_healthy(gateway) == ""
    gateway.kill()
    assert why_not_healthy(gateway) != ""


def test_a_gateway_that_is_not_ready_is_not_healthy(start: Callable[..., Server]) -> None:
    gateway = start("mq_sqs", f"--admin=127.0.0.1:{free_port()}", f"--min-free={2**60}")

    assert "503" in why_not_healthy(gateway)


def test_without_an_admin_listener_the_gateway_itself_is_asked(
    start: Callable[..., Server],
) -> None:
    assert why_not_healthy(start("mq_sqs", "--admin=", f"--port={free_port()}")) == ""


def test_a_server_is_asked_in_the_same_way(start: Callable[..., Server]) -> None:
    assert why_not_healthy(start("mq", f"--admin=127.0.0.1:{free_port()}")) == ""
