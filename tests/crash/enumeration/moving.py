"""Moves from one queue to another, and back."""

from __future__ import annotations

from tests.crash.enumeration.acting import (
    Chance,
    known_in,
    lease_seconds,
    step_in_before,
    stock,
)
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.clock import LONG_SECONDS
from tests.crash.enumeration.scene import Scene


def move_ready(scene: Scene, chance: Chance) -> None:
    """The oldest, and then some of them back."""
    clients = stock(scene, chance, ready=chance.randint(1, 4), leased=chance.randrange(2))
    clients.run(clients.move_ready("a", "a.b", chance.randint(1, 4)))
    clients.run(clients.receive("a.b", lease_seconds(chance)), clients.publish("a"))
    clients.run(clients.move_ready("a.b", "a", chance.randint(1, 2)))


def redrive(scene: Scene, chance: Chance) -> None:
    """Dead letters, back to where they died; some are received just then."""
    clients = stock(scene, chance, ready=chance.randint(2, 4), leased=chance.randrange(2))
    clients.run(clients.move_ready("a", "a.b", chance.randint(2, 4), "spoiled"))
    clients.run(clients.receive("a.b", lease_seconds(chance)), clients.publish("a"))
    clients.run(clients.redrive("a.b", "a", chance.randint(1, 3)))


def move_by_id(scene: Scene, chance: Chance) -> None:
    """In any state, some under a lease, one of which is over; once beside another request, whose
    sync would be theirs too, and once alone."""
    clients = stock(scene, chance, ready=2, leased=chance.randint(1, 2))
    clients.run(clients.publish("a", 10, LONG_SECONDS))
    for beside in ([clients.publish("a.b")], []):
        chosen = chance.sample(known_in(scene, "a"), chance.randint(1, 2))
        leases = [m.lease if m.lease and chance.random() < 0.6 else None for m in chosen]
        clients.run(
            *(
                clients.move(message, "a.b", lease)
                for message, lease in zip(chosen, leases, strict=True)
            ),
            *beside,
        )
        scene.clock.pass_seconds(chance.choice([0, 2]))
    clients.run(clients.receive("a.b", lease_seconds(chance)))


def move_twice(scene: Scene, chance: Chance) -> None:
    """Two servers move the same messages to one queue, one before the other one's barrier: what the
    second one does not find any more is there."""
    clients = stock(scene, chance, ready=chance.randint(1, 2), leased=1)
    others = PlayedClients(scene)
    chosen = chance.sample(known_in(scene, "a"), chance.randint(1, 2))

    def move_all(by: PlayedClients) -> None:
        by.run(*(by.move(message, "a.b") for message in chosen))

    step_in_before(clients.files, "sync", lambda: move_all(others))
    move_all(clients)
    clients.files.before = None
