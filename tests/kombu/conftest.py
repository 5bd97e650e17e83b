"""Connections of kombu to a real server; each test has a queue of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest
from kombu import Connection

import mq.kombu  # noqa: F401
from mq.client import Client
from tests.support.processes import Server

_numbers = count()


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[..., Connection]]:
    """`connect(visibility_timeout=2)` opens a connection with these transport options."""
    with ExitStack() as opened:

        def open_connection(url: str | None = None, **options: Any) -> Connection:
            broker = url or server.url.replace("http://", "mq://")
            return opened.enter_context(Connection(broker, transport_options=options))

        yield open_connection


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


@pytest.fixture
def queue() -> str:
    return f"tasks-{next(_numbers)}"
