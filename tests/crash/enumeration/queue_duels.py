"""Duels about a queue that is made, deleted, or published to."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from mq.commit.operation import Operation, tell_nobody
from mq.errors import QueueNotFound
from mq.ids import Position
from mq.names import MessageId, QueueName
from mq.spool.queue.queue_settings import NO_CHANGES
from mq.spool.queue.queues import begin_deletion
from mq.store.publishing.batch import seal_batch
from mq.store.publishing.filling import Batch
from mq.store.publishing.own_id import publish_own
from mq.store.publishing.parts import BatchPart
from mq.store.publishing.publish import Draft, Entry, publish
from mq.store.publishing.publish_each import publish_each
from tests.crash.enumeration.acting import (
    Chance,
    Paused,
    apart,
    go_quick,
    interleave,
    known_in,
    step_in,
    two_servers,
)
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.known import LedgerMessage
from tests.crash.enumeration.ledger import Ledger
from tests.crash.enumeration.scene import Scene, seal_of
from tests.support.file_work import run_to_need

SOME_SETTINGS = {"visibility": "60", "max-messages": "1000"}


class _KilledDeletion:
    """A deletion of queue b, which has a message under a lease, that is killed after its first
    step."""

    def __init__(
        self, scene: Scene, others: PlayedClients, settings: Mapping[str, str] = NO_CHANGES
    ) -> None:
        self._scene, self._others, self._settings = scene, others, settings
        self._bodies: list[bytes] = []
        self._is_asked = self._has_begun = False

    def make_and_fill(self) -> None:
        self._others.run(self._others.create("b", self._settings))
        self._others.run(self._others.publish("b"))
        self._others.run(self._others.receive("b"))

    def begin(self) -> None:
        self._bodies, self._is_asked = list(self._scene.bodies_in("b")), True
        self._scene.say(partial(Ledger.asks_delete, queue="b", bodies=self._bodies))
        with suppress(OSError):
            self._has_begun = begin_deletion(self._others.server.work.spool, QueueName("b"))

    def ends(self, later: LedgerMessage) -> None:
        """Say what it has done. If another message is in the queue by now, the queue was made
        again, and has no old ones."""
        if self._is_asked:
            is_certain = self._has_begun and later.is_published
            no = partial(Ledger.is_not_deleted, queue="b", bodies=self._bodies)
            self._scene.say(partial(no, is_certain=is_certain))


def make_while_deleting(
    scene: Scene, step: Chance, settings: Mapping[str, str] = NO_CHANGES
) -> None:
    """One makes a queue that another one makes before and deletes again, and is then killed."""
    clients, others = two_servers(scene, ready=0)
    deletion = _KilledDeletion(scene, others, settings)

    def make_and_begin_to_delete() -> None:
        deletion.make_and_fill()
        deletion.begin()

    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(clients.create("b", settings)),
        make_and_begin_to_delete,
    )
    deletion.ends(*clients.run(clients.publish("b")))
    clients.run(clients.receive("b"))
    others.server.sweep()


def delete_while_making(scene: Scene, step: Chance) -> None:
    """Delete a queue that was made before the first one took the lock."""
    clients, others = two_servers(scene, ready=0)
    deletion = _KilledDeletion(scene, others)

    def before(call: str) -> None:
        if call == "lock":
            step_in(clients.files, step.number, deletion.begin)
            apart(deletion.make_and_fill)

    clients.files.before = before
    clients.run(clients.create("b"))
    scene.is_over = clients.files.before is not None
    clients.files.before = None
    deletion.ends(*clients.run(clients.publish("b")))
    clients.run(clients.receive("b"))
    others.server.sweep()


def others_come_while_making(scene: Scene, step: Chance) -> None:
    """A queue is made with settings while another server makes, empties, deletes and sweeps it."""
    clients, others = two_servers(scene, ready=0)

    def make_delete_and_sweep() -> None:
        others.server.sweep()
        others.run(others.create("b", SOME_SETTINGS))
        others.run(others.delete("b"))
        others.server.sweep()
        scene.reap()

    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(clients.create("b", SOME_SETTINGS)),
        make_delete_and_sweep,
    )
    clients.run(clients.create("b", SOME_SETTINGS))
    [message] = clients.run(clients.publish("b"))
    if not message.is_published:
        scene.say(partial(Ledger.breaks, text="a queue that was made is gone"))


def make_again_while_deleting(scene: Scene, step: Chance) -> None:
    """There is a message in `new`, so that others may come between the looks at two folders."""
    clients, others = two_servers(scene, ready=1)
    scene.say(partial(Ledger.asks_publish, queue="a", body=b"left"))
    scene.place("new/a:left", b"left", seal_of(b"left", scene.clock()))
    scene.settle()

    def make_again() -> None:
        others.run(others.create("a"))
        others.run(others.publish("a"))
        others.run(others.receive("a"))

    interleave(scene, step, clients.files, lambda: clients.run(clients.delete("a")), make_again)


def delete_while_publishing(
    scene: Scene, step: Chance, own_id: str | None = None, count: int = 1
) -> None:
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
        lambda: publish_and_die(scene, clients, own_id, count),
        delete_and_make_again,
    )
    others.server.sweep()
    if is_held and any(scene.root.glob("queues/a/*")):
        scene.say(partial(Ledger.breaks, text="a queue made again saw an old message"))


def take_while_deleting(scene: Scene, step: Chance, is_removal: bool = False) -> None:
    """A message is received, or removed, while its queue is deleted and made again."""
    clients, others = two_servers(scene, ready=1)
    [message] = known_in(scene, "a")
    _delete_meanwhile(
        scene,
        step,
        clients,
        others,
        lambda: clients.run(
            clients.remove("a", str(message.message_id)) if is_removal else clients.receive("a")
        ),
    )


def take_together_while_deleting(scene: Scene, step: Chance) -> None:
    """A message is received together with that of another queue."""
    clients, others = two_servers(scene, ready=1)
    go_quick(clients)
    _delete_meanwhile(
        scene,
        step,
        clients,
        others,
        lambda: clients.run(clients.receive("a.b"), clients.receive("a")),
    )


def _delete_meanwhile(
    scene: Scene,
    step: Chance,
    clients: PlayedClients,
    others: PlayedClients,
    act: Callable[[], object],
) -> None:
    """Another server deletes queue a while these clients do something to it, and makes it again."""

    def delete_and_make_again() -> None:
        others.run(others.delete("a"))
        others.run(others.create("a"))

    interleave(scene, step, clients.files, act, delete_and_make_again)
    others.server.sweep()
    if not scene.is_over and any(scene.root.glob("*/a:[!.]*")):
        scene.say(partial(Ledger.breaks, text="a queue made again knows an old message"))


def seal_while_deleting(scene: Scene, step: Chance) -> None:
    """A batch is sealed, and its publisher killed, while its queue is being deleted; that it looked
    for the queue was before."""
    clients, others = two_servers(scene, ready=0)
    body = scene.body(10)
    scene.say(partial(Ledger.asks_publish, queue="a", body=body))
    entry = Entry(1, Draft(len(body), zlib.crc32(body), None, body))
    placed = [(entry, Position(MessageId("filled"), 0))]
    batch = Batch(others.server.work, [BatchPart(others.server.work, QueueName("a"), placed)])
    batch.fill()

    seal_while_a_goes(scene, step, clients, others, batch)


def seal_while_a_goes(
    scene: Scene, step: Chance, clients: PlayedClients, others: PlayedClients, batch: Batch
) -> bool:
    """Delete queue `a` and make it again, while the publisher of a filled batch seals it and is
    killed. Returns whether it was sealed."""
    sealing = Paused(others.files, "rename", lambda: _seal_and_die(others, batch))
    delete = partial(clients.run, clients.delete("a"))
    interleave(scene, step, clients.files, delete, sealing.finish)
    sealing.finish()
    is_sealed = any(scene.root.glob("new/.*:*[!n]"))
    batch.is_sealed = True
    batch.close()
    clients.run(clients.create("a"))
    clients.server.sweep()
    if any(scene.root.glob("queues/a/*")):
        scene.say(partial(Ledger.breaks, text="a queue made again saw an old batch"))
    return is_sealed


def _seal_and_die(others: PlayedClients, batch: Batch) -> None:
    work = others.server.work
    work.begin_round()
    with suppress(QueueNotFound):
        next(seal_batch(work, batch))
    work.end_calls()


def publish_and_die(scene: Scene, clients: PlayedClients, own_id: str | None, count: int) -> None:
    """Publish up to the barrier, and die; the kernel then closes what was open."""
    queue, work = QueueName("a"), clients.server.work
    bodies = [scene.body(10) for _ in range(count)]
    for body in bodies:
        scene.say(partial(Ledger.asks_publish, queue=queue, body=body))
    drafts = [Draft(len(body), zlib.crc32(body), None, body) for body in bodies]
    if own_id is not None:
        ids = [MessageId(f"{own_id}{number}") for number in range(count)]
        drafts = [replace(each, message_id=own) for each, own in zip(drafts, ids, strict=True)]
    operation: Operation[object]
    if count > 1:
        operation = publish_each(work, [(queue, each, tell_nobody) for each in drafts])
    elif own_id is None:
        operation = publish(work, queue, drafts[0])
    else:
        operation = publish_own(work, queue, drafts[0])
    work.begin_round()
    with suppress(QueueNotFound):
        run_to_need(operation)
    work.end_calls()
    operation.close()
