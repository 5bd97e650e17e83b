"""What every row is made of: a stocked server, and another actor who steps in."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from mq.names import QueueName
from mq.spool.queue import purging
from mq.store.store import Store
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.clock import LONG_SECONDS, SHORT_SECONDS
from tests.crash.enumeration.known import LedgerMessage
from tests.crash.enumeration.recorder import RecordedFiles
from tests.crash.enumeration.scene import Scene
from tests.support.redelivery import move_due
from tests.support.submits import QuickStore

SIZES = [8, 10, 500, 5_000]
LARGE = 140_000
MOST_SECONDS = 30


class Chance(random.Random):
    """What a run chooses; the same for the same number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def stock(scene: Scene, chance: Chance, ready: int = 2, leased: int = 0) -> PlayedClients:
    """A server with queues `a` and `a.b`, and some messages in each; they may not have settled."""
    clients = PlayedClients(scene)
    clients.run(clients.create("a"), clients.create("a.b"))
    for queue, number in (("a", ready + leased), ("a.b", 1)):
        clients.run(*(clients.publish(queue, chance.choice(SIZES)) for _ in range(number)))
    clients.run(*(clients.receive("a", lease_seconds(chance)) for _ in range(leased)))
    if chance.random() < 0.5:
        scene.settle()
    scene.begin()
    return clients


def go_quick(clients: PlayedClients) -> PlayedClients:
    """Let what is asked at once be done together, as it is over HTTP, once the server knows what is
    in its queues."""
    clients.run(*(clients.store.describe_queue(QueueName(each)) for each in ("a", "a.b")))
    clients.store = cast(Store, QuickStore(clients.store))
    return clients


def known_in(scene: Scene, queue: str) -> list[LedgerMessage]:
    """The messages whose ids clients know."""
    return [each for each in scene.ledger.of_queue(queue) if each.message_id is not None]


def lease_seconds(chance: Chance) -> float:
    return chance.choice([LONG_SECONDS, SHORT_SECONDS])


def step_in(files: RecordedFiles, at: int, action: Callable[[], object]) -> None:
    """Let another actor do all of `action` before the call number `at` of `files`."""
    left = at

    def before(call: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            files.before = None
            apart(action)

    files.before = before


def step_in_before(files: RecordedFiles, call: str, action: Callable[[], object]) -> None:
    """Let another actor do all of `action` before the next call of that name."""

    def before(called: str) -> None:
        if called == call:
            files.before = None
            apart(action)

    files.before = before


@contextmanager
def failing_once(files: RecordedFiles, call: str, at: int) -> Iterator[None]:
    """Let the call of that name with the number `at` fail."""
    left = at

    def before(called: str) -> None:
        nonlocal left
        left -= called == call
        if called == call and left == -1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    files.before = before
    yield
    files.before = None


class Paused:
    """An actor that has come to its first call of a name, and goes on when it is told to."""

    def __init__(self, files: RecordedFiles, call: str, action: Callable[[], object]) -> None:
        self._call, self._files = call, files
        self._reached, self._may_go_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=action)
        files.before = self._before
        self._thread.start()
        assert self._reached.wait(MOST_SECONDS)

    def _before(self, call: str) -> None:
        if call == self._call:
            self._files.before = None
            self._reached.set()
            assert self._may_go_on.wait(MOST_SECONDS)

    def finish(self) -> None:
        self._may_go_on.set()
        self._thread.join()


def apart(action: Callable[[], object]) -> None:
    """In a thread of its own, which has no event loop yet; waits for its end."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


@contextmanager
def long_queues() -> Iterator[None]:
    """A purge takes a queue with any messages for one that has many."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(purging, "LONG_QUEUE", 1)
        yield


def two_servers(scene: Scene, ready: int) -> tuple[PlayedClients, PlayedClients]:
    """Two of them; queues `a` and `a.b` are there, and all is durable."""
    clients = stock(scene, Chance(0), ready)
    others = PlayedClients(scene)
    scene.settle()
    scene.begin()
    return clients, others


def redeliver_and_receive(scene: Scene, others: PlayedClients) -> None:
    """What is due in queue `a` is brought back, and another client receives it."""
    move_due(scene.root, scene.files())
    others.run(others.receive("a", LONG_SECONDS))


def interleave(
    scene: Scene,
    step: Chance,
    files: RecordedFiles,
    one: Callable[[], object],
    other: Callable[[], object],
) -> None:
    step_in(files, step.number, other)
    one()
    scene.is_over = files.before is not None
    files.before = None
