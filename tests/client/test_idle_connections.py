"""Connections that requests have left."""

from __future__ import annotations

import gc
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import NoReturn

import pytest

from mq.client import Client
from mq.client.blocking import connections
from tests.support.faces import new_queue
from tests.support.processes import Server, wait_until

AT_ONCE = 8


def connections_to(port: int) -> int:
    """How many sockets of this process are connected to a port."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        # One that is closed meanwhile, or not connected, is not among them.
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as one:
                    found += one.getpeername()[1:2] == (port,)
    return found


def test_connections_that_are_idle_for_long_are_closed_though_others_are_in_use(
    start_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server()
    with Client(server.url) as mq:
        orders = new_queue(mq)
        waiting = [
            threading.Thread(target=orders.receive, kwargs={"wait": 30}) for _ in range(AT_ONCE)
        ]
        for each in waiting:
            each.start()
        wait_until(lambda: connections_to(server.port) >= AT_ONCE)
        orders.publish_many(["one"] * AT_ONCE)
        for each in waiting:
            each.join()
        assert connections_to(server.port) >= AT_ONCE
        ended_at = time.monotonic()

        wait_until(lambda: time.monotonic() > ended_at + 0.2)
        orders.counts()
        monkeypatch.setattr(connections, "IDLE_SECONDS", 0.2)
        orders.counts()

        assert connections_to(server.port) == 1


def test_without_poll_a_connection_is_used_again_until_its_server_has_closed_it(
    start_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """eventlet takes it away. Threads of `mq.kombu` died of that, and no task was acknowledged."""
    server = start_server()
    monkeypatch.setattr(connections, "select", SimpleNamespace(select=select.select))
    with Client(server.url, retry_seconds=0) as mq:
        orders = new_queue(mq)
        assert orders.counts().ready == 0
        assert connections_to(server.port) == 1

        server.kill()
        start_server(f"--port={server.port}", root=server.root)

        assert orders.counts().ready == 0


# The garbage collector closes the connection, which Python warns of if it is asked to.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_request_that_a_signal_interrupts_anywhere_leaves_no_connection(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler of a signal may raise, like those for Ctrl-C and for the time limit of a task."""
    with Client(server.url) as mq:
        orders = new_queue(mq)
        assert connections_to(server.port) == 1

        def interrupted(*given: object) -> NoReturn:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(connections, "Exchange", interrupted)
            with pytest.raises(KeyboardInterrupt):
                orders.counts()

        gc.collect()
        assert connections_to(server.port) == 0
        assert orders.counts().ready == 0
