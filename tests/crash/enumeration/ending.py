"""Remove and reap; queues that begin and end."""

from __future__ import annotations

import random

from tests.crash.enumeration.acting import SIZES, stock
from tests.crash.enumeration.scene import Scene


def remove(scene: Scene, chance: random.Random) -> None:
    clients = stock(scene, chance, ready=chance.randint(1, 3), leased=chance.randint(1, 3))
    known = [m for m in scene.ledger.messages.values() if m.message_id is not None]
    for _ in range(chance.randint(1, 2)):
        chosen = chance.sample(known, chance.randint(1, min(3, len(known))))
        clients.run(
            *(
                clients.remove(
                    m.queue, str(m.message_id), m.lease if chance.random() < 0.5 else None
                )
                for m in chosen
            )
        )


def reap(scene: Scene, chance: random.Random) -> None:
    clients = stock(scene, chance, ready=chance.randint(1, 3), leased=1)
    known = [m for m in scene.ledger.of_queue("a") if m.message_id is not None]
    for message in chance.sample(known, chance.randint(1, len(known))):
        clients.run(clients.remove("a", str(message.message_id)))
    if chance.random() < 0.5:
        clients.run(clients.delete("a.b"))
    scene.reap()
    clients.run(clients.publish("a"))


def make_queue(scene: Scene, chance: random.Random) -> None:
    clients = stock(scene, chance, ready=chance.randrange(3)) if chance.random() < 0.7 else None
    if clients is None:
        clients = scene.server()
    queues = chance.sample(["a", "a.b", "b"], chance.randint(1, 3))
    clients.run(*(clients.create(queue) for queue in queues))
    clients.run(*(clients.publish(queue, chance.choice(SIZES)) for queue in queues[:2]))
    if chance.random() < 0.5:
        clients.run(clients.create(queues[0]), clients.create("b"))


def delete_queue(scene: Scene, chance: random.Random) -> None:
    clients = stock(scene, chance, ready=chance.randint(0, 2), leased=chance.randint(0, 2))
    if chance.random() < 0.5:
        clients.run(clients.delete("a"), clients.publish("a"), clients.receive("a"))
    else:
        clients.run(clients.delete("a"))
    if chance.random() < 0.7:
        clients.run(clients.create("a"), clients.publish("a.b"))
        clients.run(clients.publish("a"))
    if chance.random() < 0.3:
        clients.run(clients.delete("a"), clients.create("a"))


def first_start(scene: Scene, chance: random.Random) -> None:
    """The folders of a root are being made, by two servers or one."""
    clients = scene.server()
    others = scene.server() if chance.random() < 0.5 else clients
    clients.run(clients.create("a"), *(clients.publish("a.b") for _ in range(chance.randrange(2))))
    others.run(others.create("a"), others.create("b"))
    others.run(*(others.publish(chance.choice(["a", "b"]), chance.choice(SIZES)) for _ in range(2)))
