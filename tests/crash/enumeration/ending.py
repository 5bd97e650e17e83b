"""Remove and reap; queues that begin and end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mq.lifecycle import PurgeScope
from tests.crash.enumeration.acting import (
    SIZES,
    Chance,
    failing_once,
    go_quick,
    known_in,
    long_queues,
    step_in_before,
    stock,
)
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.clock import LONG_SECONDS
from tests.crash.enumeration.known import LedgerMessage
from tests.crash.enumeration.scene import Scene
from tests.support.redelivery import move_due


def remove(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=chance.randint(1, 3), leased=chance.randint(1, 3))
    if chance.random() < 0.4:
        # A lease that is over still removes a message that nobody has received since.
        late = next(m for m in known_in(scene, "a") if m.lease)
        scene.clock.pass_seconds(2)
        scene.move()
        clients.run(clients.remove("a", str(late.message_id), late.lease))
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


def remove_at_once(scene: Scene, chance: Chance) -> None:
    """Remove messages of several queues together, under leases and without."""
    clients = go_quick(stock(scene, chance, ready=2, leased=1))
    clients.run(clients.publish("a.b"), clients.publish("a.b"))
    clients.run(*(clients.receive(queue) for queue in ("a", "a.b", "a.b")))
    for _ in range(2):
        chosen = [chance.choice(known_in(scene, queue)) for queue in ("a", "a.b")]
        chosen += chance.sample(known_in(scene, "a"), chance.randrange(2))
        leases = [m.lease if m.lease and chance.random() < 0.7 else None for m in chosen]
        clients.run(
            *(
                clients.remove(message.queue, str(message.message_id), lease)
                for message, lease in zip(chosen, leases, strict=True)
            )
        )


def remove_twice(scene: Scene, chance: Chance) -> None:
    """Two servers remove the same messages, one before the other one's barrier."""
    clients = stock(scene, chance, ready=2, leased=2)
    others = PlayedClients(scene)
    chosen = chance.sample(known_in(scene, "a"), chance.randint(1, 3))
    first, second = ([chance.choice([None, message.lease]) for message in chosen] for _ in range(2))

    def remove_all(by: PlayedClients, leases: list[int | None]) -> None:
        by.run(
            *(
                by.remove("a", str(message.message_id), lease)
                for message, lease in zip(chosen, leases, strict=True)
            )
        )

    step_in_before(clients.files, "sync", lambda: remove_all(others, second))
    remove_all(clients, first)
    clients.files.before = None
    remove_all(clients, [None] * len(chosen))


def remove_in_a_move(scene: Scene, chance: Chance) -> None:
    """Where a move is a link and an unlink: another server removes a message between the two."""
    clients = stock(scene, chance, ready=2, leased=2)
    others = PlayedClients(scene)
    scene.clock.pass_seconds(2)
    message = chance.choice(known_in(scene, "a"))
    lease = chance.choice([None, message.lease]) or None

    def remove() -> None:
        others.run(others.remove("a", str(message.message_id), lease))

    step_in_before(clients.files, "unlink", remove)
    match chance.number % 3:
        case 0:
            move_due(scene.root, clients.files)
        case 1:
            clients.run(clients.receive("a"))
        case _:
            clients.run(clients.release(message))
    clients.files.before = None


def reap(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=chance.randint(1, 3), leased=1)
    known = known_in(scene, "a")
    for message in chance.sample(known, chance.randint(1, len(known))):
        clients.run(clients.remove("a", str(message.message_id)))
    if chance.random() < 0.5:
        clients.run(clients.delete("a.b"))
    scene.reap()
    clients.run(clients.publish("a"))


def make_queue(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=chance.randrange(3)) if chance.random() < 0.7 else None
    if clients is None:
        clients = PlayedClients(scene)
    queues = chance.sample(["a", "a.b", "b"], chance.randint(1, 3))
    clients.run(*(clients.create(queue) for queue in queues))
    clients.run(*(clients.publish(queue, chance.choice(SIZES)) for queue in queues[:2]))
    if chance.random() < 0.5:
        clients.run(clients.create(queues[0]), clients.create("b"))


def make_queue_with_settings(scene: Scene, chance: Chance) -> None:
    """A queue that has its settings whenever it exists."""
    clients = stock(scene, chance, ready=chance.randrange(3))
    create = partial(clients.create, "b", {"visibility": "60", "max-messages": "1000"})
    if chance.random() < 0.5:
        clients.run(create(), clients.publish("a"))
    else:
        clients.run(create(), create())
    clients.run(clients.publish("b", chance.choice(SIZES)), clients.publish("a"))
    if chance.random() < 0.5:
        clients.run(clients.delete("b"))
        clients.run(create(), clients.publish("a.b"))
        clients.run(clients.publish("b"))


def delete_queue(scene: Scene, chance: Chance) -> None:
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


def delete_twice(scene: Scene, chance: Chance) -> None:
    """Two servers delete the same queue, one before the other one's barrier."""
    clients = stock(scene, chance, ready=chance.randint(1, 2), leased=1)
    others = PlayedClients(scene)
    step_in_before(clients.files, "sync", lambda: others.run(others.delete("a")))
    clients.run(clients.delete("a"))
    clients.files.before = None
    clients.run(clients.delete("a"))


def delete_hindered(scene: Scene, chance: Chance) -> None:
    """One file of the queue cannot be moved at first; the rest is put away. A sweep, or who makes
    the queue again, ends the deletion."""
    clients = stock(scene, chance, ready=chance.randint(0, 2), leased=chance.randint(1, 3))
    for each in known_in(scene, "a")[: chance.randrange(3)]:
        clients.run(clients.remove("a", str(each.message_id)))
    # The first rename begins the deletion.
    with failing_once(clients.files, "rename", chance.randint(1, 4)):
        clients.run(clients.delete("a"))
    if chance.random() < 0.5:
        clients.server.sweep()
    with failing_once(clients.files, "rename", chance.randint(0, 3)):
        clients.run(clients.create("a"), clients.publish("a.b"))
    clients.run(clients.create("a"))
    clients.run(clients.publish("a"))


def purge(scene: Scene, chance: Chance, scope: PurgeScope = PurgeScope.ALL) -> None:
    clients = stock(scene, chance, ready=chance.randint(0, 3), leased=chance.randint(0, 2))
    if chance.random() < 0.5:
        clients.run(clients.publish("a", delay_seconds=LONG_SECONDS))
    if chance.random() < 0.5:
        clients.run(clients.purge("a", scope), clients.publish("a"), clients.receive("a"))
    else:
        clients.run(clients.purge("a", scope))
    clients.run(clients.publish("a"), clients.publish("a.b"))
    if chance.random() < 0.3:
        clients.run(clients.purge("a"))
        clients.run(clients.delete("a"), clients.create("a"))


def purge_ready(scene: Scene, chance: Chance) -> None:
    purge(scene, chance, PurgeScope.READY)


def purge_folder(scene: Scene, chance: Chance) -> None:
    """Purge a queue as one of many messages is purged."""
    with long_queues():
        purge(scene, chance, chance.choice(list(PurgeScope)))


def remove_what_is_taken(scene: Scene, chance: Chance) -> None:
    """Two servers: one purges or deletes a queue, the other is asked to remove its messages before
    the barrier of that: one by one, under leases or without, or together."""
    clients, others = stock(scene, chance, ready=0), PlayedClients(scene)
    way = chance.number % 3
    if way == 2:
        others = go_quick(others)
    for take in chance.sample([_purge_leased, _purge_ready, _purge_by_folder], 3):
        taken = clients.run(clients.publish("a"), clients.publish("a"))
        _remove_before_the_barrier(partial(take, clients), clients, others, taken, way)
    taken = clients.run(clients.publish("a"))
    delete = partial(clients.delete, "a")
    _remove_before_the_barrier(lambda: clients.run(delete()), clients, others, taken, way)


def _remove_before_the_barrier(
    take: Callable[[], object],
    clients: PlayedClients,
    others: PlayedClients,
    taken: list[LedgerMessage],
    way: int,
) -> None:
    def remove() -> None:
        others.run(
            *(
                others.remove("a", str(each.message_id), (each.lease or 1) if way == 1 else None)
                for each in taken
            )
        )

    step_in_before(clients.files, "sync", remove)
    take()
    clients.files.before = None


def _purge_leased(clients: PlayedClients) -> None:
    files, before = clients.files, clients.files.before
    files.before = None
    clients.run(clients.receive("a"), clients.receive("a"))
    files.before = before
    clients.run(clients.purge("a"))


def _purge_ready(clients: PlayedClients) -> None:
    clients.run(clients.purge("a"))


def _purge_by_folder(clients: PlayedClients) -> None:
    with long_queues():
        clients.run(clients.purge("a"))


def first_start(scene: Scene, chance: Chance) -> None:
    """The folders of a root are being made, by two servers or one."""
    clients = PlayedClients(scene)
    others = PlayedClients(scene) if chance.random() < 0.5 else clients
    clients.run(clients.create("a"), *(clients.publish("a.b") for _ in range(chance.randrange(2))))
    others.run(others.create("a"), others.create("b"))
    others.run(*(others.publish(chance.choice(["a", "b"]), chance.choice(SIZES)) for _ in range(2)))
