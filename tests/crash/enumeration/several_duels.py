"""Duels about a batch for several queues."""

from __future__ import annotations

from functools import partial

from mq.store.publishing.filling import Batch
from mq.store.publishing.parts import BatchPart
from tests.crash.enumeration.acting import Chance, interleave, two_servers
from tests.crash.enumeration.ledger import Ledger
from tests.crash.enumeration.purge_duels import without_patience
from tests.crash.enumeration.queue_duels import seal_while_a_goes
from tests.crash.enumeration.rows import Row
from tests.crash.enumeration.scene import Scene
from tests.crash.enumeration.several import OWN, QUEUES, ask, placed_in, publish_to_all


def seal_for_several_while_deleting(scene: Scene, step: Chance) -> None:
    """A batch for two queues is sealed, and its publisher killed, while one of them is deleted and
    made again. If it is sealed the other queue gets its message; the first one never does."""
    clients, others = two_servers(scene, ready=0)
    work = others.server.work
    placed = placed_in(work, ask(scene, 1))
    batch = Batch(work, [BatchPart(work, *each) for each in placed.items()])
    batch.fill()

    is_sealed = seal_while_a_goes(scene, step, clients, others, batch)
    if is_sealed and not any(scene.root.glob("queues/a.b/*")):
        scene.say(partial(Ledger.breaks, text="a deletion took another queue's message along"))


def end_while_publishing_to_several(scene: Scene, step: Chance, *, is_purge: bool = False) -> None:
    """One of the queues is deleted and made again, or purged, while a batch for both is
    published."""
    clients, others = two_servers(scene, ready=0)

    def end() -> None:
        others.run(others.purge("a") if is_purge else others.delete("a"))
        if not is_purge:
            others.run(others.create("a"))

    with without_patience():
        interleave(scene, step, clients.files, lambda: clients.run(publish_to_all(clients)), end)
    others.server.sweep()


def sweep_while_publishing_to_several(scene: Scene, step: Chance) -> None:
    clients, others = two_servers(scene, ready=0)

    def publish() -> None:
        [is_answered] = clients.run(publish_to_all(clients))
        if not is_answered:
            scene.say(partial(Ledger.breaks, text="a batch failed, though nothing had"))

    interleave(scene, step, clients.files, publish, others.server.sweep)
    others.run(*(others.receive(each) for each in QUEUES))


def publish_own_id_to_several(scene: Scene, step: Chance) -> None:
    """While it does, another server publishes under that id to one of the queues."""
    clients, others = two_servers(scene, ready=0)
    clients.files.calls.clear()

    def publish() -> None:
        if "lock_byte" in clients.files.calls:
            others.run(others.publish("a", own_id=OWN))

    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(publish_to_all(clients, 2, has_own_id=True)),
        publish,
    )


SEVERAL_DUELS = (
    Row("seal for several queues while deleting one", seal_for_several_while_deleting),
    Row("delete while publishing to several queues", end_while_publishing_to_several),
    Row(
        "purge while publishing to several queues",
        partial(end_while_publishing_to_several, is_purge=True),
    ),
    Row("sweep while publishing to several queues", sweep_while_publishing_to_several),
    Row("publish an own id to several queues", publish_own_id_to_several),
)
