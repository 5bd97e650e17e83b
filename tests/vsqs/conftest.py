"""One folder, with as many queues open on it as a test asks for."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import inotify_simple
import pytest

from tests.support.faults import raising
from tests.support.vsqs import Clock, OpenQueue
from vsqs.queue import Queue


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a queue that needs no server."""
    return tmp_path / "queue"


@pytest.fixture
def queue(folder: Path) -> Iterator[Queue]:
    with Queue(folder) as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_queue(folder: Path) -> Iterator[OpenQueue]:
    """Several may be open on the one folder, as in several processes."""
    opened: list[Queue] = []

    def open_one(**settings: Any) -> Queue:
        opened.append(Queue(folder, **settings))
        return opened[-1]

    yield open_one
    for queue in opened:
        queue.close()


@pytest.fixture
def no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no events come, as where fs.inotify.max_user_instances is reached."""
    monkeypatch.setattr(inotify_simple, "INotify", raising(errno.EMFILE))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as opened:
        yield opened
