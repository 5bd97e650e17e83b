"""Hand a message over for a batch: it is removed in the step in which that is published."""

from __future__ import annotations

from tests.crash.enumeration.acting import Chance, failing_once, lease_seconds, stock
from tests.crash.enumeration.clock import LONG_SECONDS
from tests.crash.enumeration.scene import Scene
from tests.crash.enumeration.several import QUEUES, end_one, publish_to_all


def hand_over(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=chance.randint(2, 3))
    for has_own_id in (False, chance.random() < 0.5):
        delay_seconds, is_large = chance.choice([0.0, lease_seconds(chance)]), chance.random() < 0.5
        [received] = clients.run(clients.receive("a", LONG_SECONDS))
        handing_over = publish_to_all(
            clients,
            chance.randint(1, 2),
            delay_seconds,
            has_own_id=has_own_id,
            is_large=is_large,
            removes=received,
        )
        clients.run(handing_over, clients.publish(chance.choice(QUEUES)))
    clients.run(*(clients.receive(each, lease_seconds(chance)) for each in QUEUES))


def hand_over_late(scene: Scene, chance: Chance) -> None:
    """The lease is over, and another receiver may have the message; or it is removed."""
    clients = stock(scene, chance, ready=2)
    received = clients.run(*(clients.receive("a", lease_seconds(chance)) for _ in range(2)))
    scene.clock.pass_seconds(2)
    scene.move()
    if chance.random() < 0.5:
        clients.run(clients.receive("a", LONG_SECONDS))
    for each in received:
        clients.run(publish_to_all(clients, removes=each))
        if chance.random() < 0.5:
            clients.run(publish_to_all(clients, removes=each))


def settle_handovers(scene: Scene, chance: Chance) -> None:
    """What a sweep finds of a handover that stopped anywhere; then a call of the sweep fails
    too."""
    clients = stock(scene, chance, ready=3)
    for is_hindered in (False, True):
        [received] = clients.run(clients.receive("a", LONG_SECONDS))
        # The first rename takes the message, the second one is the seal.
        with clients.failing("rename", after=chance.randint(0, 4)):
            clients.run(publish_to_all(clients, chance.randint(1, 2), removes=received))
        if is_hindered:
            call, least = chance.choice([("lock", 1), ("rename", 0)])
            with failing_once(clients.files, call, chance.randint(least, least + 3)):
                clients.server.sweep()
        clients.server.sweep()
    clients.run(*(clients.receive(each, lease_seconds(chance)) for each in QUEUES))


def end_queue_of_handover(scene: Scene, chance: Chance) -> None:
    """One of its queues is deleted or purged while a handover is not delivered."""
    clients = stock(scene, chance, ready=2)
    [received] = clients.run(clients.receive("a", LONG_SECONDS))
    with clients.failing("rename", after=chance.randint(0, 3)):
        clients.run(publish_to_all(clients, removes=received))
    end_one(clients, chance)
