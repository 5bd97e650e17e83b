"""Several operations in one batch, and two servers on one root."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from tests.crash.enumeration.acting import SIZES, Chance, known_in, lease_seconds, step_in, stock
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.scene import Scene


def mixed(scene: Scene, chance: Chance) -> None:
    """Several operations in one batch."""
    clients = stock(scene, chance, ready=2, leased=2)
    for _ in range(2):
        clients.run(*(any_request(clients, chance) for _ in range(chance.randint(2, 4))))


def failing_sync(scene: Scene, chance: Chance) -> None:
    """A sync fails now and then; the store opens its folders again and goes on."""
    clients = stock(scene, chance, ready=2, leased=1)
    for _ in range(2):
        clients.files.failing_syncs = 1
        clients.run(*(any_request(clients, chance) for _ in range(chance.randint(1, 3))))
        clients.files.failing_syncs = 0
        clients.run(any_request(clients, chance), clients.publish("a.b", chance.choice(SIZES)))


def two_servers(scene: Scene, chance: Chance) -> None:
    """One server's requests anywhere between the file calls of another one's."""
    clients = stock(scene, chance, ready=2, leased=2)
    others = PlayedClients(scene)
    for _ in range(2):
        step_in(
            clients.files,
            chance.randrange(12),
            lambda: others.run(any_request(others, chance), any_request(others, chance)),
        )
        clients.run(any_request(clients, chance), any_request(clients, chance))
        clients.files.before = None


def any_request(clients: PlayedClients, chance: Chance) -> Coroutine[Any, Any, object]:
    message = chance.choice(known_in(clients.scene, "a"))
    message_id, lease = str(message.message_id), message.lease or None
    requests: list[Callable[[], Coroutine[Any, Any, object]]] = [
        lambda: clients.publish(chance.choice(["a", "a.b"]), chance.choice(SIZES)),
        lambda: clients.receive("a", lease_seconds(chance)),
        lambda: clients.take(message, lease_seconds(chance), lease),
        lambda: clients.release(message, lease),
        lambda: clients.remove("a", message_id),
        lambda: clients.remove("a", message_id, message.lease),
        lambda: clients.create(chance.choice(["a", "b"])),
        lambda: clients.delete(chance.choice(["a", "a.b"])),
    ]
    return chance.choices(requests, weights=[3, 3, 2, 1, 1, 1, 1, 1])[0]()
