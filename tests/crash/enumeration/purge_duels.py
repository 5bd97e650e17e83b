"""Duels about a queue that is purged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from mq.lifecycle import PurgeScope
from mq.names import QueueName
from mq.spool.queue import purging
from mq.store import patience
from tests.crash.enumeration.acting import (
    Chance,
    Paused,
    interleave,
    known_in,
    long_queues,
    two_servers,
)
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.clock import LONG_SECONDS, SHORT_SECONDS
from tests.crash.enumeration.ledger import Ledger
from tests.crash.enumeration.promises import Is
from tests.crash.enumeration.recorder import RecordedFiles
from tests.crash.enumeration.restart import reap
from tests.crash.enumeration.scene import Scene
from tests.support.redelivery import move_due

_PATIENCE_SECONDS = 0.01


@contextmanager
def without_patience() -> Iterator[None]:
    """Who waits for the other one here waits for nobody: that one goes on only after it."""
    with pytest.MonkeyPatch.context() as patched:
        for module in (purging, patience):
            patched.setattr(module, "PURGE_LOCK_SECONDS", _PATIENCE_SECONDS)
        yield


def by_folder(duel: Callable[[Scene, Chance], None]) -> Callable[[Scene, Chance], None]:
    """The same where the purge exchanges the queue's folder."""

    def play(scene: Scene, step: Chance) -> None:
        with long_queues():
            duel(scene, step)

    return play


def receive_while_purging(scene: Scene, step: Chance) -> None:
    """One is leased, and comes back; what was ready is received by another server."""
    clients, others = two_servers(scene, ready=2)
    clients.run(clients.receive("a", SHORT_SECONDS))
    scene.clock.pass_seconds(2)

    def receive_and_redeliver() -> None:
        others.run(others.receive("a", LONG_SECONDS))
        move_due(scene.root, scene.files())
        others.run(others.receive("a", LONG_SECONDS))

    spool, files = clients.server.work.spool, clients.files
    list_queue = spool.names_in_queue

    def list_late(queue: QueueName) -> list[str]:
        """Others may come between this look and the one into `delay`."""
        if files.before is not None:
            files.before("list")
        return list_queue(queue)

    purge = partial(clients.run, clients.purge("a"))
    with without_patience(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(spool, "names_in_queue", list_late)
        interleave(scene, step, files, purge, receive_and_redeliver)


def come_and_go_while_purging(scene: Scene, step: Chance) -> None:
    """A message comes back when the purge has listed it in `delay`, and is received again."""
    clients, others = two_servers(scene, ready=1)
    clients.run(clients.receive("a", SHORT_SECONDS))
    scene.clock.pass_seconds(2)
    begin = purging.Purge.begin

    def begin_and_redeliver(purge: purging.Purge) -> None:
        begin(purge)
        move_due(scene.root, scene.files())

    with without_patience(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(purging.Purge, "begin", begin_and_redeliver)
        interleave(
            scene,
            step,
            clients.files,
            lambda: clients.run(clients.purge("a")),
            lambda: others.run(others.receive("a", LONG_SECONDS)),
        )


def purge_while_receiving(scene: Scene, step: Chance) -> None:
    """The receive saw the queue before."""
    clients, others = two_servers(scene, ready=2)
    with without_patience():
        interleave(
            scene,
            step,
            clients.files,
            lambda: clients.run(clients.receive("a", LONG_SECONDS)),
            lambda: others.run(others.purge("a")),
        )


def purge_within_a_receive(scene: Scene, step: Chance) -> None:
    """Where a move is a link and an unlink: another server is between the two for the rest of the
    purge."""
    clients, others = two_servers(scene, ready=1)

    def receive() -> None:
        others.run(others.receive("a", LONG_SECONDS))

    _purge_within(scene, step, clients, others.files, receive)


def purge_within_a_redelivery(scene: Scene, step: Chance) -> None:
    """The same beside a mover."""
    clients, files = two_servers(scene, ready=1)[0], scene.files()
    clients.run(clients.receive("a", SHORT_SECONDS))
    scene.clock.pass_seconds(2)
    _purge_within(scene, step, clients, files, partial(move_due, scene.root, files))


def _purge_within(
    scene: Scene,
    step: Chance,
    clients: PlayedClients,
    files: RecordedFiles,
    act: Callable[[], object],
) -> None:
    begun: list[Paused] = []

    def act_and_end() -> None:
        act()
        if files.before is not None:
            files.before("unlink")  # It has made no move.

    with without_patience():
        interleave(
            scene,
            step,
            clients.files,
            lambda: clients.run(clients.purge("a")),
            lambda: begun.append(Paused(files, "unlink", act_and_end)),
        )
        for each in begun:
            each.finish()


def sweep_while_purging(scene: Scene, step: Chance) -> None:
    """Sweep while a purge works. What a sweep takes for the leftover of a crash, the reaper
    unlinks: then the purge fails, though nothing else has."""
    clients, others = two_servers(scene, ready=2)
    clients.run(clients.receive("a", LONG_SECONDS))

    def sweep_and_reap() -> None:
        others.server.sweep()
        reap(scene.root, scene.files())

    purge = partial(clients.run, clients.purge("a"))
    with without_patience():
        interleave(scene, step, clients.files, purge, sweep_and_reap)
    if any(each.exists is not Is.NOT for each in scene.ledger.of_queue("a")):
        scene.say(partial(Ledger.breaks, text="a purge failed, though nothing had"))


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
    with without_patience():
        interleave(scene, step, clients.files, purge, end)


def redeliver_while_purging(scene: Scene, step: Chance) -> None:
    """The mover has the queue's folder open, in whose place the purge of what is ready puts
    another one. What is hidden still when that is answered is not taken later."""
    clients, others = two_servers(scene, ready=2)
    clients.run(clients.receive("a", SHORT_SECONDS))
    scene.clock.pass_seconds(2)
    files = scene.files()
    with without_patience(), long_queues():
        interleave(
            scene,
            step,
            files,
            lambda: move_due(scene.root, files),
            lambda: _purge_ready_and_look(scene, others),
        )


def deliver_while_purging(scene: Scene, step: Chance, is_batch: bool = False) -> None:
    """A sweep delivers what its server could not. It was published when the purge had looked into
    `new` already."""
    clients, others = two_servers(scene, ready=2)
    with clients.failing("rename", after=int(is_batch)):
        clients.run(clients.publish_batch("a", 2) if is_batch else clients.publish("a"))

    def purge() -> None:
        for path in scene.root.glob("new/**/a:*"):
            scene.say(partial(_is_late, message_id=path.name.removeprefix("a:")))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(others.server.work.spool, "names", lambda folder: [])
            _purge_ready_and_look(scene, others)

    with without_patience(), long_queues():
        interleave(scene, step, clients.files, clients.server.sweep, purge)


def _purge_ready_and_look(scene: Scene, others: PlayedClients) -> None:
    others.run(others.purge("a", PurgeScope.READY))
    left = [*scene.root.glob("delay/a:*"), *scene.root.glob("new/**/a:*")]
    for message in scene.ledger.of_queue("a"):
        if f"a:{message.message_id}" in [path.name for path in left]:
            scene.say(partial(_is_seen, body=message.body))


def _is_late(ledger: Ledger, message_id: str) -> None:
    """Its publisher has no answer yet."""
    message = ledger.of(message_id)
    message.is_published, message.exists = False, Is.MAYBE


def _is_seen(ledger: Ledger, body: bytes) -> None:
    ledger.messages[body].exists = Is.SURE
