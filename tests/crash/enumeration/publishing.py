"""Publish, and deliver what a publisher left in `new`."""

from __future__ import annotations

from functools import partial

from tests.crash.enumeration.acting import (
    LARGE,
    SIZES,
    Chance,
    failing_once,
    lease_seconds,
    step_in,
    stock,
)
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.clock import LONG_SECONDS
from tests.crash.enumeration.ledger import Ledger
from tests.crash.enumeration.scene import Scene, seal_of


def publish_few(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=chance.randrange(2))
    for _ in range(chance.randint(1, 3)):
        queues = chance.choices(["a", "a.b"], k=chance.randint(1, 2))
        clients.run(*(clients.publish(queue, chance.choice(SIZES)) for queue in queues))


def publish_many(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=0)
    queues = chance.choices(["a", "a.b"], k=chance.randint(4, 7))
    clients.run(*(clients.publish(queue, chance.choice(SIZES)) for queue in queues))


def publish_large(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=chance.randrange(2))
    sizes = [LARGE, *chance.choices([LARGE, 10], k=chance.randint(0, 2))]
    clients.run(*(clients.publish(chance.choice(["a", "a.b"]), size) for size in sizes))


def publish_with_properties(scene: Scene, chance: Chance) -> None:
    """The first of them raises the format of the root; large ones and batches too."""
    clients = stock(scene, chance, ready=chance.randrange(2))
    make = scene.body_with_properties
    sizes = chance.choices([*SIZES, LARGE], k=chance.randint(1, 2))
    batch = clients.publish_batch("a", chance.randint(1, 2), make_body=make)
    several = [clients.publish("a", size, make_body=make) for size in sizes]
    several.append(clients.publish("a"))
    if chance.random() < 0.5:
        clients.run(batch, *several)
    else:
        clients.run(*several)
        clients.run(batch)
    clients.run(clients.receive("a", lease_seconds(chance)))
    if chance.random() < 0.5:
        scene.clock.pass_seconds(2)
        scene.move()


def publish_delayed(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=1)
    for _ in range(chance.randint(1, 2)):
        sizes = chance.choices([*SIZES, LARGE], k=chance.randint(1, 2))
        clients.run(*(clients.publish("a", size, lease_seconds(chance)) for size in sizes))
    if chance.random() < 0.5:
        scene.clock.pass_seconds(2)
        scene.move()
    clients.run(clients.receive("a"), clients.publish("a", 10, LONG_SECONDS))


def publish_batches(scene: Scene, chance: Chance) -> None:
    """All of a batch or nothing: few messages are synced one by one, many by one syncfs."""
    clients = stock(scene, chance, ready=chance.randrange(2))
    for _ in range(2):
        delay_seconds = chance.choice([0.0, lease_seconds(chance)])
        number, own_id = chance.choice([(1, None), (2, None), (3, None), (6, None), (6, "own")])
        batch = clients.publish_batch("a", number, delay_seconds, own_id)
        clients.run(batch, clients.publish(chance.choice(["a", "a.b"])))
    clients.run(clients.receive("a", lease_seconds(chance)))


def deliver_batches(scene: Scene, chance: Chance) -> None:
    """What a sweep finds of a batch that its publisher could not deliver."""
    clients = stock(scene, chance, ready=chance.randrange(2))
    for _ in range(2):
        # The first rename is the seal.
        with clients.failing("rename", after=1):
            clients.run(clients.publish_batch("a", chance.randint(1, 3)))
        clients.server.sweep()
    clients.run(clients.receive("a", lease_seconds(chance)))


def deliver_batches_hindered(scene: Scene, chance: Chance) -> None:
    """A member of such a batch cannot be locked, or not be moved, and the others are delivered."""
    clients = stock(scene, chance, ready=chance.randrange(2))
    for _ in range(2):
        with clients.failing("rename", after=1):
            clients.run(clients.publish_batch("a", chance.randint(2, 4), lease_seconds(chance)))
        # The first lock is that of the batch.
        call, least = chance.choice([("lock", 1), ("rename", 0)])
        with failing_once(clients.files, call, chance.randint(least, least + 3)):
            clients.server.sweep()
    clients.run(clients.receive("a", lease_seconds(chance)))


def publish_own_ids(scene: Scene, chance: Chance) -> None:
    """Twice through one server, at once or one after the other, through another one, and in the
    middle of the first."""
    clients = stock(scene, chance, ready=chance.randrange(2))
    others = PlayedClients(scene)
    own = [f"own-{number}" for number in range(chance.randint(1, 2))]
    if chance.random() < 0.5:
        # As a publisher leaves it who is killed before the barrier.
        body = f"{own[0]} ".encode()
        scene.say(partial(Ledger.asks_publish, queue="a", body=body))
        scene.place(f"new/a:{own[0]}", body, seal_of(body, scene.clock()))
        if chance.random() < 0.5:
            clients.run(clients.publish("a", own_id=own[0]))
    again = [chance.choice(own) for _ in range(2)]
    step_in(
        clients.files,
        chance.randrange(20),
        lambda: others.run(*(others.publish("a", own_id=each) for each in again)),
    )
    if chance.random() < 0.5:
        clients.run(*(clients.publish("a", own_id=each) for each in own + again))
    else:
        for each in own + again:
            clients.run(clients.publish("a", own_id=each))
    clients.files.before = None
    if chance.random() < 0.5:
        clients.run(clients.receive("a"))
        others.run(*(others.publish("a", own_id=each) for each in own))


def publish_left_of_batches(scene: Scene, chance: Chance) -> None:
    """A producer sends a message again that it sent in a batch, before or after a sweep has found
    what is left of that."""
    clients = stock(scene, chance, ready=chance.randrange(2))
    for number in range(chance.randint(1, 2)):
        own = f"own-{number}"
        body = f"{own} ".encode()
        scene.say(partial(Ledger.asks_publish, queue="a", body=body))
        scene.place_batch("a", own, body)
        if chance.random() < 0.5:
            clients.server.sweep()
        clients.run(clients.publish("a", own_id=own))


def deliver(scene: Scene, chance: Chance) -> None:
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
