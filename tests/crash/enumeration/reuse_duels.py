"""Duels in which a producer's id comes again: its queue is deleted and made again while another
actor is at work on the message that had the id before."""

from __future__ import annotations

from functools import partial

from tests.crash.enumeration.acting import Chance, interleave, two_servers
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.clock import LONG_SECONDS, SHORT_SECONDS
from tests.crash.enumeration.ledger import Ledger
from tests.crash.enumeration.queue_duels import publish_and_die
from tests.crash.enumeration.restart import move
from tests.crash.enumeration.scene import Scene, seal_of


def redeliver_while_it_comes_again(scene: Scene, step: Chance) -> None:
    """The mover is about to bring back a message whose lease is over. The one that has its id by
    then is under a lease that is not."""
    clients, others = two_servers(scene, ready=0)
    clients.run(clients.publish("a", own_id="own"))
    clients.run(clients.receive("a", SHORT_SECONDS))
    scene.clock.pass_seconds(2)
    files = scene.files()

    def come_again() -> None:
        _make_again(others)
        others.run(others.publish("a", own_id="own", make_body=scene.body))
        others.run(others.receive("a", LONG_SECONDS))

    interleave(scene, step, files, lambda: move(scene.root, files), come_again)


def sweep_while_it_comes_again(scene: Scene, step: Chance) -> None:
    """A sweep is about to deliver what a dead publisher has left. What has its name by then was
    left by another one, and is not durable."""
    clients, others = two_servers(scene, ready=0)
    scene.say(partial(Ledger.asks_publish, queue="a", body=b"left"))
    scene.place("new/a:own", b"left", seal_of(b"left", scene.clock()))
    scene.settle()

    def come_again() -> None:
        _make_again(others)
        publish_and_die(scene, others, "own", 1)

    interleave(scene, step, clients.files, clients.server.sweep, come_again)
    others.run(others.receive("a", LONG_SECONDS))


def _make_again(others: PlayedClients) -> None:
    others.run(others.delete("a"))
    others.run(others.create("a"))
