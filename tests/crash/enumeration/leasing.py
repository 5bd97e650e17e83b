"""Receive, and everything that ends a lease but a removal."""

from __future__ import annotations

from tests.crash.enumeration.acting import LARGE, Chance, go_quick, known_in, lease_seconds, stock
from tests.crash.enumeration.clock import LONG_SECONDS, SHORT_SECONDS
from tests.crash.enumeration.scene import Scene


def receive(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=chance.randint(1, 4), leased=chance.randrange(2))
    for _ in range(chance.randint(1, 2)):
        queues = chance.choices(["a", "a", "a.b"], k=chance.randint(1, 3))
        clients.run(*(clients.receive(queue, lease_seconds(chance)) for queue in queues))


def receive_many(scene: Scene, chance: Chance) -> None:
    """Up to as many as there are, among them a large one."""
    clients = stock(scene, chance, ready=chance.randint(2, 4))
    clients.run(clients.publish("a", LARGE))
    for _ in range(2):
        queues = chance.choices(["a", "a", "a.b"], k=chance.randint(1, 2))
        limit = chance.randint(2, 4)
        clients.run(*(clients.receive_many(each, limit, lease_seconds(chance)) for each in queues))
    scene.move()


def receive_at_once(scene: Scene, chance: Chance) -> None:
    """Receive from several queues together, among them a large message; one queue runs dry."""
    clients = go_quick(stock(scene, chance, ready=chance.randint(1, 3)))
    clients.run(clients.publish(chance.choice(["a", "a.b"]), chance.choice([10, LARGE])))
    for _ in range(2):
        queues = chance.choices(["a", "a.b"], k=chance.randint(2, 4))
        clients.run(*(clients.receive(queue) for queue in queues))
    scene.move()


def redeliver(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=1, leased=chance.randint(1, 3))
    for _ in range(chance.randint(1, 2)):
        scene.clock.pass_seconds(2)
        scene.move()
        clients.run(*(clients.receive("a", lease_seconds(chance)) for _ in range(2)))


def release(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=chance.randint(2, 4))
    received = clients.run(*(clients.receive("a", LONG_SECONDS) for _ in range(2)))
    clients.run(*(clients.put_back(each) for each in received))
    clients.run(clients.receive("a", lease_seconds(chance)), clients.publish("a"))


def by_id(scene: Scene, chance: Chance) -> None:
    """That very message, whatever state it is in; leases are prolonged, also one that is over."""
    clients = stock(scene, chance, ready=2, leased=2)
    clients.run(clients.publish("a", 10, LONG_SECONDS))
    for _ in range(2):
        chosen = chance.sample(known_in(scene, "a"), chance.randint(1, 2))
        leases = [m.lease if m.lease and chance.random() < 0.6 else None for m in chosen]
        clients.run(
            *(
                clients.take(message, lease_seconds(chance), lease)
                for message, lease in zip(chosen, leases, strict=True)
            )
        )


def release_by_id(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=1, leased=chance.randint(1, 3))
    clients.run(clients.publish("a", 10, LONG_SECONDS))
    for _ in range(2):
        chosen = chance.sample(known_in(scene, "a"), chance.randint(1, 2))
        clients.run(*(clients.release(message, message.lease or None) for message in chosen))
        clients.run(clients.receive("a", lease_seconds(chance)))
    clients.run(clients.publish("a.b"))


def dead_letter(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=chance.randint(1, 2))
    for _ in range(2):
        number = chance.randint(1, 2)
        clients.run(*(clients.receive("a", SHORT_SECONDS) for _ in range(number)))
        scene.clock.pass_seconds(2)
        scene.move()
    clients.run(clients.publish("a.b"))


def set_aside(scene: Scene, chance: Chance) -> None:
    """Damaged messages, which were never promised to anybody."""
    clients = stock(scene, chance, ready=1)
    for _ in range(chance.randint(1, 3)):
        size = chance.choice([20, LARGE])
        scene.place_damaged(chance.choice(["new/a:", "queues/a/"]), size)
    if chance.random() < 0.5:
        clients.server.sweep()
    clients.run(*(clients.receive("a", LONG_SECONDS) for _ in range(2)))
    clients.server.sweep()
