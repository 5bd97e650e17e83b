"""Duels about messages that are moved from one queue to another."""

from __future__ import annotations

from tests.crash.enumeration.acting import (
    Chance,
    interleave,
    known_in,
    redeliver_and_receive,
    two_servers,
)
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.clock import LONG_SECONDS, SHORT_SECONDS
from tests.crash.enumeration.known import LedgerMessage
from tests.crash.enumeration.rows import Row
from tests.crash.enumeration.scene import Scene


def move_while_receiving(scene: Scene, step: Chance) -> None:
    """The oldest is moved; another server's receiver takes it, and keeps its lease."""
    clients, others = two_servers(scene, ready=1)
    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(clients.move_ready("a", "a.b", 5)),
        lambda: others.run(others.receive("a", LONG_SECONDS)),
    )


def move_to_two_queues(scene: Scene, step: Chance) -> None:
    """Two servers move one message to different queues: it is in one of them."""
    clients, others, message = _with_one(scene)
    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(clients.move(message, "a.b")),
        lambda: others.run(others.move(message, "b")),
    )


def move_while_removing(scene: Scene, step: Chance) -> None:
    """A removal without a lease takes no lock: what it answers holds."""
    clients, others, message = _with_one(scene)
    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(clients.move(message, "a.b")),
        lambda: others.run(others.remove(message.queue, str(message.message_id))),
    )


def move_late(scene: Scene, step: Chance) -> None:
    """Under a lease that is over, while the message is redelivered and received again."""
    clients, others = two_servers(scene, ready=1)
    [received] = clients.run(clients.receive("a", SHORT_SECONDS))
    message = scene.ledger.of(received.message_id)
    scene.clock.pass_seconds(2)

    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(clients.move(message, "a.b", received.lease)),
        lambda: redeliver_and_receive(scene, others),
    )


def _with_one(scene: Scene) -> tuple[PlayedClients, PlayedClients, LedgerMessage]:
    """A message in queue `a`, and a queue `b`."""
    clients, others = two_servers(scene, ready=1)
    clients.run(clients.create("b"))
    scene.settle()
    scene.begin()
    [message] = known_in(scene, "a")
    return clients, others, message


MOVING_DUELS = (
    Row("move while receiving", move_while_receiving),
    Row("move to two queues", move_to_two_queues),
    Row("move while removing", move_while_removing),
    Row("move late", move_late),
)
