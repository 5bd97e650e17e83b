"""Duels in which a producer's id comes again while another actor is at work on the message that had
it before: the queue is deleted and made again, or that message is removed and reaped."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from mq.errors import IdTaken
from tests.crash.enumeration.acting import Chance, interleave, two_servers
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.clock import LONG_SECONDS, SHORT_SECONDS
from tests.crash.enumeration.ledger import Ledger
from tests.crash.enumeration.queue_duels import publish_and_die
from tests.crash.enumeration.recorder import OLD
from tests.crash.enumeration.restart import reap
from tests.crash.enumeration.rows import Row
from tests.crash.enumeration.scene import Scene, seal_of
from tests.support.redelivery import move_due


def make_again(scene: Scene, others: PlayedClients) -> None:
    others.run(others.delete("a"))
    others.run(others.create("a"))


def remove_and_reap(scene: Scene, others: PlayedClients) -> None:
    """Without the lease, which a removal needs not know."""
    others.run(others.remove("a", "own"))
    reap(scene.root, scene.files())


Free = Callable[[Scene, PlayedClients], None]
"""How the id becomes free."""


def redeliver_while_it_comes_again(
    scene: Scene, step: Chance, max_receives: int = 0, free: Free = make_again
) -> None:
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
        lambda: move_due(scene.root, files, max_receives),
        lambda: receive_what_comes_again(scene, others, free),
    )


def remove_while_it_comes_again(
    scene: Scene, step: Chance, most: int = 1, free: Free = make_again
) -> None:
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

    come_again = partial(receive_what_comes_again, scene, others, free)
    interleave(scene, step, clients.files, remove, come_again)


def move_while_it_comes_again(scene: Scene, step: Chance, free: Free = make_again) -> None:
    """A client moves a message under its lease to another queue."""
    _end_lease_while_it_comes_again(
        scene, step, free, lambda clients, message, lease: clients.move(message, "a.b", lease)
    )


def release_while_it_comes_again(scene: Scene, step: Chance, free: Free = make_again) -> None:
    """A client releases a message under its lease."""
    _end_lease_while_it_comes_again(scene, step, free, PlayedClients.release)


def _end_lease_while_it_comes_again(
    scene: Scene, step: Chance, free: Free, end: Callable[..., Coroutine[Any, Any, Any]]
) -> None:
    clients, others = two_servers(scene, ready=0)
    clients.run(clients.publish("a", own_id="own"))
    [received] = clients.run(clients.receive("a", LONG_SECONDS))
    message = scene.ledger.of(received.message_id)
    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(end(clients, message, received.lease)),
        lambda: receive_what_comes_again(scene, others, free),
    )


def sweep_while_it_comes_again(scene: Scene, step: Chance) -> None:
    """A sweep is about to deliver what a dead publisher has left. What has its name by then was
    left by another one, and is not durable."""
    clients, others = two_servers(scene, ready=0)
    scene.say(partial(Ledger.asks_publish, queue="a", body=b"left"))
    scene.place("new/a:own", b"left", seal_of(b"left", scene.clock()))
    scene.settle()

    def come_again() -> None:
        make_again(scene, others)
        publish_and_die(scene, others, "own", 1)

    interleave(scene, step, clients.files, clients.server.sweep, come_again)
    others.run(others.receive("a", LONG_SECONDS))


REAPED: dict[str, Callable[..., None]] = {
    "redeliver while its id is reaped": redeliver_while_it_comes_again,
    "remove while its id is reaped": remove_while_it_comes_again,
    "remove several while an id is reaped": partial(remove_while_it_comes_again, most=2),
    "move while its id is reaped": move_while_it_comes_again,
    "release while its id is reaped": release_while_it_comes_again,
}

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
    Row("release while its id comes again", release_while_it_comes_again),
    *(Row(name, partial(play, free=remove_and_reap)) for name, play in REAPED.items()),
    Row(
        "remove by links while its id is reaped",
        partial(remove_while_it_comes_again, free=remove_and_reap),
        OLD,
    ),
)


def receive_what_comes_again(scene: Scene, others: PlayedClients, free: Free = make_again) -> None:
    free(scene, others)
    with suppress(IdTaken):  # by a dead letter, or by the removed message
        others.run(others.publish("a", own_id="own", make_body=scene.body))
        others.run(others.receive("a", LONG_SECONDS))
