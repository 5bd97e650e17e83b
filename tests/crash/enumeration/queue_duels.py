"""Duels about a queue that is made, deleted, or published to."""

from __future__ import annotations

import zlib
from contextlib import suppress
from dataclasses import replace
from functools import partial

from mq.errors import QueueNotFound
from mq.names import MessageId, Position, QueueName
from mq.spool.queues import begin_deletion
from mq.store.batch import seal_batch
from mq.store.filling import Batch
from mq.store.own_id import publish_own
from mq.store.publish import Draft, Entry, publish
from tests.crash.enumeration.acting import (
    Chance,
    Paused,
    apart,
    interleave,
    known_in,
    step_in,
    two_servers,
)
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.ledger import Ledger
from tests.crash.enumeration.scene import Scene, seal_of
from tests.support.file_work import run_to_need


def make_while_deleting(scene: Scene, step: Chance) -> None:
    """One makes a queue that another one makes before and deletes again, and is then killed."""
    clients, others = two_servers(scene, ready=0)

    def make_and_begin_to_delete() -> None:
        others.run(others.create("b"))
        bodies = scene.bodies_in("b")
        scene.say(partial(Ledger.asks_delete, queue="b", bodies=bodies))
        with suppress(OSError):
            begin_deletion(others.server.work.spool, QueueName("b"))
        no = partial(Ledger.is_not_deleted, queue="b", bodies=bodies, is_certain=False)
        scene.say(no)

    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(clients.create("b")),
        make_and_begin_to_delete,
    )
    clients.run(clients.publish("b"))
    clients.run(clients.receive("b"))
    others.server.sweep()


def delete_while_making(scene: Scene, step: Chance) -> None:
    """Delete a queue that was made before the first one took the lock."""
    clients, others = two_servers(scene, ready=0)

    def make() -> None:
        others.run(others.create("b"))

    def begin_to_delete() -> None:
        scene.say(partial(Ledger.asks_delete, queue="b", bodies=[]))
        with suppress(OSError):
            begin_deletion(others.server.work.spool, QueueName("b"))
        scene.say(partial(Ledger.is_not_deleted, queue="b", bodies=[], is_certain=False))

    def before(call: str) -> None:
        if call == "lock":
            step_in(clients.files, step.number, begin_to_delete)
            apart(make)

    clients.files.before = before
    clients.run(clients.create("b"))
    scene.is_over = clients.files.before is not None
    clients.files.before = None
    clients.run(clients.publish("b"))
    clients.run(clients.receive("b"))
    others.server.sweep()


def make_again_while_deleting(scene: Scene, step: Chance) -> None:
    """There is a message in `new`, so that others may come between the looks at two folders."""
    clients, others = two_servers(scene, ready=1)
    scene.say(partial(Ledger.asks_publish, queue="a", body=b"left"))
    scene.place("new/a:left", b"left", seal_of(b"left"))
    scene.settle()

    def make_again() -> None:
        others.run(others.create("a"))
        others.run(others.publish("a"))
        others.run(others.receive("a"))

    interleave(scene, step, clients.files, lambda: clients.run(clients.delete("a")), make_again)


def delete_while_publishing(scene: Scene, step: Chance, own_id: str | None = None) -> None:
    """The publisher saw the queue, and is killed when its message has a name."""
    clients, others = two_servers(scene, ready=0)
    is_held = False
    clients.files.calls.clear()

    def delete_and_make_again() -> None:
        nonlocal is_held
        is_held = "lock_shared" in clients.files.calls
        others.run(others.delete("a"))
        others.run(others.create("a"))

    interleave(
        scene,
        step,
        clients.files,
        lambda: _publish_and_die(scene, clients, own_id),
        delete_and_make_again,
    )
    others.server.sweep()
    if is_held and any(scene.root.glob("queues/a/*")):
        scene.say(partial(Ledger.breaks, text="a queue made again saw an old message"))


def take_while_deleting(scene: Scene, step: Chance, is_removal: bool = False) -> None:
    """A message is received, or removed, while its queue is deleted and made again."""
    clients, others = two_servers(scene, ready=1)
    [message] = known_in(scene, "a")

    def delete_and_make_again() -> None:
        others.run(others.delete("a"))
        others.run(others.create("a"))

    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(
            clients.remove("a", str(message.message_id)) if is_removal else clients.receive("a")
        ),
        delete_and_make_again,
    )
    others.server.sweep()
    if not scene.is_over and any(scene.root.glob("*/a:[!.]*")):
        scene.say(partial(Ledger.breaks, text="a queue made again knows an old message"))


def seal_while_deleting(scene: Scene, step: Chance) -> None:
    """A batch is sealed, and its publisher killed, while its queue is being deleted; that it looked
    for the queue was before."""
    clients, others = two_servers(scene, ready=0)
    body = scene.body(10)
    scene.say(partial(Ledger.asks_publish, queue="a", body=body))
    batch = Batch(others.server.work, QueueName("a"))
    batch.fill(
        [Entry(1, Draft(len(body), zlib.crc32(body), None, body))],
        [Position(MessageId("filled"), 0)],
    )

    sealing = Paused(others.files, "rename", lambda: _seal_and_die(others, batch))
    delete = partial(clients.run, clients.delete("a"))
    interleave(scene, step, clients.files, delete, sealing.finish)
    sealing.finish()
    batch.is_sealed = True
    batch.close()
    clients.run(clients.create("a"))
    clients.server.sweep()
    if any(scene.root.glob("queues/a/*")):
        scene.say(partial(Ledger.breaks, text="a queue made again saw an old batch"))


def _seal_and_die(others: PlayedClients, batch: Batch) -> None:
    work = others.server.work
    work.begin_round()
    with suppress(QueueNotFound):
        next(seal_batch(work, batch))
    work.end_calls()


def _publish_and_die(scene: Scene, clients: PlayedClients, own_id: str | None) -> None:
    """Publish up to the barrier, and die; the kernel then closes what was open."""
    body, queue, work = scene.body(10), QueueName("a"), clients.server.work
    scene.say(partial(Ledger.asks_publish, queue=queue, body=body))
    draft = Draft(len(body), zlib.crc32(body), None, body)
    if own_id is None:
        operation = publish(work, queue, draft)
    else:
        operation = publish_own(work, queue, replace(draft, message_id=MessageId(own_id)))
    work.begin_round()
    with suppress(QueueNotFound):
        run_to_need(operation)
    work.end_calls()
    operation.close()
