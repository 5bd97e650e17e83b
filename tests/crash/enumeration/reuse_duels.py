"""Duels in which a producer's id comes again: its queue is deleted and made again while another
actor is at work on the message that had the id before."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from mq.errors import IdTaken
from tests.crash.enumeration.acting import Chance, interleave, two_servers
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.clock import LONG_SECONDS, SHORT_SECONDS
from tests.crash.enumeration.ledger import Ledger
from tests.crash.enumeration.queue_duels import publish_and_die
from tests.crash.enumeration.restart import move
from tests.crash.enumeration.rows import Row
from tests.crash.enumeration.scene import Scene, seal_of


def redeliver_while_it_comes_again(scene: Scene, step: Chance, max_receives: int = 0) -> None:
    """The mover is about to bring back a message whose lease is over, or to bury it. The one that
    has its id by then is under a lease that is not."""
    clients, others = two_servers(scene, ready=0)
    clients.run(clients.publish("a", own_id="own"))
    clients.run(clients.receive("a", SHORT_SECONDS))
    scene.clock.pass_seconds(2)
    files = scene.files()
    interleave(
        scene,
        step,
        files,
        lambda: move(scene.root, files, max_receives),
        lambda: _receive_what_comes_again(scene, others),
    )


def remove_while_it_comes_again(scene: Scene, step: Chance, most: int = 1) -> None:
    """A receiver is about to remove a message under its lease. The one that has its id by then is
    under another."""
    clients, others = two_servers(scene, ready=0)
    clients.run(clients.publish("a", own_id="own"))
    if most > 1:
        clients.run(clients.publish("a"))
    received = clients.run(*(clients.receive("a", LONG_SECONDS) for _ in range(most)))

    def remove() -> None:
        if most > 1:
            clients.run(clients.remove_together("a", received))
        else:
            clients.run(clients.remove("a", received[0].message_id, received[0].lease))

    interleave(scene, step, clients.files, remove, lambda: _receive_what_comes_again(scene, others))


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


REUSE_DUELS = (
    Row("redeliver while its id comes again", redeliver_while_it_comes_again),
    Row(
        "bury while its id comes again",
        partial(redeliver_while_it_comes_again, max_receives=1),
        max_receives=1,
    ),
    Row("remove while its id comes again", remove_while_it_comes_again),
    Row("remove several while their ids come again", partial(remove_while_it_comes_again, most=2)),
    Row("sweep while its id comes again", sweep_while_it_comes_again),
)


def _receive_what_comes_again(scene: Scene, others: PlayedClients) -> None:
    _make_again(others)
    with suppress(IdTaken):  # by a dead letter
        others.run(others.publish("a", own_id="own", make_body=scene.body))
        others.run(others.receive("a", LONG_SECONDS))


def _make_again(others: PlayedClients) -> None:
    others.run(others.delete("a"))
    others.run(others.create("a"))
