"""Several operations in one batch, and two servers on one root."""

from __future__ import annotations

import random
from collections.abc import Coroutine
from typing import Any

from tests.crash.enumeration.acting import SIZES, lease_seconds, step_in, stock
from tests.crash.enumeration.scene import Clients, Scene


def mixed(scene: Scene, chance: random.Random) -> None:
    """Several operations in one batch."""
    clients = stock(scene, chance, ready=2, leased=2)
    for _ in range(2):
        clients.run(*(any_request(clients, chance) for _ in range(chance.randint(2, 4))))


def two_servers(scene: Scene, chance: random.Random) -> None:
    """One server's requests anywhere between the file calls of another one's."""
    clients = stock(scene, chance, ready=2, leased=2)
    others = scene.server()
    for _ in range(2):
        step_in(
            clients.files,
            chance.randrange(12),
            lambda: others.run(any_request(others, chance), any_request(others, chance)),
        )
        clients.run(any_request(clients, chance), any_request(clients, chance))
        clients.files.before = None


def any_request(clients: Clients, chance: random.Random) -> Coroutine[Any, Any, object]:
    known = [m for m in clients.scene.ledger.of_queue("a") if m.message_id is not None]
    message = chance.choice(known)
    match chance.randrange(8):
        case 0 | 1:
            return clients.publish(chance.choice(["a", "a.b"]), chance.choice(SIZES))
        case 2 | 3:
            return clients.receive("a", lease_seconds(chance))
        case 4:
            return clients.remove("a", str(message.message_id))
        case 5:
            return clients.remove("a", str(message.message_id), message.lease)
        case 6:
            return clients.create(chance.choice(["a", "b"]))
        case _:
            return clients.delete(chance.choice(["a.b", "a"]))
