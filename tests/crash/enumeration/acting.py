"""What every row is made of: a stocked server, and another actor who steps in."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from tests.crash.enumeration.clock import LONG_SECONDS, SHORT_SECONDS
from tests.crash.enumeration.recorder import RecordedFiles
from tests.crash.enumeration.scene import Clients, Scene

SIZES = [3, 10, 500, 5_000]
LARGE = 70_000


def stock(scene: Scene, chance: random.Random, ready: int = 2, leased: int = 0) -> Clients:
    """A server with queues `a` and `a.b`, and some messages in each; they may not have settled."""
    clients = scene.server()
    clients.run(clients.create("a"), clients.create("a.b"))
    for queue, number in (("a", ready + leased), ("a.b", 1)):
        clients.run(*(clients.publish(queue, chance.choice(SIZES)) for _ in range(number)))
    clients.run(*(clients.receive("a", lease_seconds(chance)) for _ in range(leased)))
    if chance.random() < 0.5:
        scene.settle()
    scene.begin()
    return clients


def lease_seconds(chance: random.Random) -> float:
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
