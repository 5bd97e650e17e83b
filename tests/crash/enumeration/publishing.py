"""Publish, and deliver what a publisher left in `new`."""

from __future__ import annotations

import random

from tests.crash.enumeration.acting import LARGE, SIZES, lease_seconds, step_in, stock
from tests.crash.enumeration.clock import LONG_SECONDS
from tests.crash.enumeration.scene import Scene


def publish_few(scene: Scene, chance: random.Random) -> None:
    clients = stock(scene, chance, ready=chance.randrange(2))
    for _ in range(chance.randint(1, 3)):
        queues = chance.choices(["a", "a.b"], k=chance.randint(1, 2))
        clients.run(*(clients.publish(queue, chance.choice(SIZES)) for queue in queues))


def publish_many(scene: Scene, chance: random.Random) -> None:
    clients = stock(scene, chance, ready=0)
    queues = chance.choices(["a", "a.b"], k=chance.randint(4, 7))
    clients.run(*(clients.publish(queue, chance.choice(SIZES)) for queue in queues))


def publish_large(scene: Scene, chance: random.Random) -> None:
    clients = stock(scene, chance, ready=chance.randrange(2))
    sizes = [LARGE, *chance.choices([LARGE, 10], k=chance.randint(0, 2))]
    clients.run(*(clients.publish(chance.choice(["a", "a.b"]), size) for size in sizes))


def publish_delayed(scene: Scene, chance: random.Random) -> None:
    clients = stock(scene, chance, ready=1)
    for _ in range(chance.randint(1, 2)):
        sizes = chance.choices([*SIZES, LARGE], k=chance.randint(1, 2))
        clients.run(*(clients.publish("a", size, lease_seconds(chance)) for size in sizes))
    if chance.random() < 0.5:
        scene.clock.pass_seconds(2)
        scene.move()
    clients.run(clients.receive("a"), clients.publish("a", 10, LONG_SECONDS))


def publish_own_ids(scene: Scene, chance: random.Random) -> None:
    """Twice through one server, through another one, and in the middle of the first."""
    clients = stock(scene, chance, ready=chance.randrange(2))
    others = scene.server()
    own = [f"own-{number}" for number in range(chance.randint(1, 2))]
    again = [chance.choice(own) for _ in range(2)]
    step_in(
        clients.files,
        chance.randrange(20),
        lambda: others.run(*(others.publish("a", own_id=each) for each in again)),
    )
    clients.run(*(clients.publish("a", own_id=each) for each in own + again))
    clients.files.before = None
    if chance.random() < 0.5:
        clients.run(clients.receive("a"))
        others.run(*(others.publish("a", own_id=each) for each in own))


def deliver(scene: Scene, chance: random.Random) -> None:
    """The server's own deliveries fail, although the messages are durable."""
    clients = stock(scene, chance, ready=chance.randrange(2))
    numbers = [chance.randint(1, 2) for _ in range(2)]
    for number in numbers:
        with clients.failing("rename"):
            clients.run(*(clients.publish("a", chance.choice(SIZES)) for _ in range(number)))
        if chance.random() < 0.5:
            clients.server.sweep()
        else:
            scene.move("new")
    clients.run(clients.receive("a", lease_seconds(chance)))
