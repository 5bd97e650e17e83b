"""Duels about a queue that is purged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from mq.names import QueueName
from mq.spool import purging
from mq.store import patience
from tests.crash.enumeration.acting import Chance, interleave, known_in, two_servers
from tests.crash.enumeration.clock import LONG_SECONDS, SHORT_SECONDS
from tests.crash.enumeration.restart import move, reap
from tests.crash.enumeration.scene import Scene

_PATIENCE_SECONDS = 0.01


@contextmanager
def _without_patience() -> Iterator[None]:
    """Who waits for the other one here waits for nobody: that one goes on only after it."""
    with pytest.MonkeyPatch.context() as patched:
        for module in (purging, patience):
            patched.setattr(module, "PURGE_LOCK_SECONDS", _PATIENCE_SECONDS)
        yield


def receive_while_purging(scene: Scene, step: Chance) -> None:
    """One is leased, and comes back; what was ready is received by another server."""
    clients, others = two_servers(scene, ready=2)
    clients.run(clients.receive("a", SHORT_SECONDS))
    scene.clock.pass_seconds(2)

    def receive_and_redeliver() -> None:
        others.run(others.receive("a", LONG_SECONDS))
        move(scene.root, scene.files())
        others.run(others.receive("a", LONG_SECONDS))

    spool, files = clients.server.work.spool, clients.files
    list_queue = spool.names_in_queue

    def list_late(queue: QueueName) -> list[str]:
        """Others may come between this look and the one into `delay`."""
        if files.before is not None:
            files.before("list")
        return list_queue(queue)

    purge = partial(clients.run, clients.purge("a"))
    with _without_patience(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(spool, "names_in_queue", list_late)
        interleave(scene, step, files, purge, receive_and_redeliver)


def purge_while_receiving(scene: Scene, step: Chance) -> None:
    """The receive saw the queue before."""
    clients, others = two_servers(scene, ready=2)
    with _without_patience():
        interleave(
            scene,
            step,
            clients.files,
            lambda: clients.run(clients.receive("a", LONG_SECONDS)),
            lambda: others.run(others.purge("a")),
        )


def sweep_while_purging(scene: Scene, step: Chance) -> None:
    """Sweep while a purge works. What a sweep takes for the leftover of a crash, the reaper
    unlinks."""
    clients, others = two_servers(scene, ready=2)
    clients.run(clients.receive("a", LONG_SECONDS))

    def sweep_and_reap() -> None:
        others.server.sweep()
        reap(scene.root, scene.files())

    purge = partial(clients.run, clients.purge("a"))
    with _without_patience():
        interleave(scene, step, clients.files, purge, sweep_and_reap)


def end_while_purging(scene: Scene, step: Chance, is_removal: bool = False) -> None:
    """A lease that is being worked under is removed, or released, by another server."""
    clients, others = two_servers(scene, ready=2)
    [received] = clients.run(clients.receive("a", LONG_SECONDS))
    [message] = [m for m in known_in(scene, "a") if m.message_id == received.message_id]

    def end() -> None:
        if is_removal:
            others.run(others.remove("a", str(message.message_id), received.lease))
        else:
            others.run(others.release(message, received.lease))

    purge = partial(clients.run, clients.purge("a"))
    with _without_patience():
        interleave(scene, step, clients.files, purge, end)
