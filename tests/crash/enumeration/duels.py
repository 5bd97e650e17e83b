"""Two actors in every interleaving: one steps in before call number N of the other.

Each duel is a row whose run N is that one. Without some lock something is broken in one of them.
"""

from __future__ import annotations

from functools import partial

from mq.errors import StartRefused
from tests.crash.enumeration.acting import (
    Chance,
    go_quick,
    interleave,
    redeliver_and_receive,
    two_servers,
)
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.clock import LONG_SECONDS, SHORT_SECONDS
from tests.crash.enumeration.handover_duels import HANDOVER_DUELS
from tests.crash.enumeration.ledger import Ledger
from tests.crash.enumeration.moving_duels import MOVING_DUELS
from tests.crash.enumeration.purge_duels import (
    by_folder,
    come_and_go_while_purging,
    deliver_while_purging,
    end_while_purging,
    purge_while_receiving,
    purge_within_a_receive,
    purge_within_a_redelivery,
    receive_while_purging,
    redeliver_while_purging,
    sweep_while_purging,
)
from tests.crash.enumeration.queue_duels import (
    SOME_SETTINGS,
    delete_while_making,
    delete_while_publishing,
    make_again_while_deleting,
    make_while_deleting,
    others_come_while_making,
    seal_while_deleting,
    take_together_while_deleting,
    take_while_deleting,
)
from tests.crash.enumeration.recorder import OLD, REPLACING
from tests.crash.enumeration.restart import reap
from tests.crash.enumeration.reuse_duels import REUSE_DUELS
from tests.crash.enumeration.rows import Row
from tests.crash.enumeration.scene import Scene
from tests.crash.enumeration.several_duels import SEVERAL_DUELS
from tests.crash.enumeration.visibility import show_late
from tests.support.redelivery import move_due

LAST_STEP = 60


def two_receivers(scene: Scene, step: Chance, most: int = 1) -> None:
    clients, others = two_servers(scene, ready=most)
    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(clients.receive_many("a", most, LONG_SECONDS)),
        lambda: others.run(others.receive_many("a", most, LONG_SECONDS)),
    )


def two_receivers_of_two_queues(scene: Scene, step: Chance) -> None:
    clients, others = two_servers(scene, ready=1)
    go_quick(clients)

    def receive(by: PlayedClients) -> None:
        by.run(by.receive("a"), by.receive("a.b"))

    interleave(scene, step, clients.files, lambda: receive(clients), lambda: receive(others))


def put_back_late(scene: Scene, step: Chance, is_back: bool = False) -> None:
    """Its lease is over, and the message redelivered and received again. With `is_back` it is in
    its queue before."""
    clients, others = two_servers(scene, ready=1)
    [received] = clients.run(clients.receive("a", SHORT_SECONDS))
    scene.clock.pass_seconds(2)
    if is_back:
        scene.move()
    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(clients.put_back(received)),
        lambda: redeliver_and_receive(scene, others),
    )


def remove_late(scene: Scene, step: Chance) -> None:
    """Remove a message under a lease that is over."""
    clients, others = two_servers(scene, ready=1)
    [received] = clients.run(clients.receive("a", SHORT_SECONDS))
    scene.clock.pass_seconds(2)
    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(clients.remove("a", received.message_id, received.lease)),
        lambda: redeliver_and_receive(scene, others),
    )


def remove_several_late(scene: Scene, step: Chance) -> None:
    clients, others = two_servers(scene, ready=2)
    [received] = clients.run(clients.receive_many("a", 2, SHORT_SECONDS))
    scene.clock.pass_seconds(2)
    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(clients.remove_together("a", received)),
        lambda: redeliver_and_receive(scene, others),
    )


def prolong_late(scene: Scene, step: Chance) -> None:
    clients, others = two_servers(scene, ready=1)
    [received] = clients.run(clients.receive("a", SHORT_SECONDS))
    message = scene.ledger.of(received.message_id)
    scene.clock.pass_seconds(2)
    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(clients.take(message, LONG_SECONDS, received.lease)),
        lambda: redeliver_and_receive(scene, others),
    )


def two_movers(scene: Scene, step: Chance) -> None:
    clients, others = two_servers(scene, ready=1)
    clients.run(clients.receive("a", SHORT_SECONDS))
    scene.clock.pass_seconds(2)
    files = scene.files()
    interleave(
        scene,
        step,
        files,
        lambda: move_due(scene.root, files),
        lambda: redeliver_and_receive(scene, others),
    )


def sweep_while_publishing(scene: Scene, step: Chance, count: int = 1) -> None:
    """What is not durable yet must not be delivered."""
    clients, others = two_servers(scene, ready=0)

    def sweep() -> None:
        others.server.sweep()
        others.run(others.receive("a"))

    interleave(scene, step, clients.files, lambda: _publish_or_break(scene, clients, count), sweep)


def sweep_while_a_publish_fails(scene: Scene, step: Chance) -> None:
    """It takes its message back, which nobody can sync any more."""
    clients, others = two_servers(scene, ready=0)
    clients.files.failing_syncs = 1
    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(clients.publish("a")),
        others.server.sweep,
    )
    others.run(others.receive("a"))


def sweep_while_starting(scene: Scene, step: Chance) -> None:
    _, others = two_servers(scene, ready=0)
    files = scene.files()

    def start() -> None:
        try:
            PlayedClients(scene, files)
        except StartRefused as error:
            scene.say(partial(Ledger.breaks, text=f"a server did not start: {error}"))

    interleave(scene, step, files, start, others.server.sweep)


def sweep_while_publishing_a_batch(scene: Scene, step: Chance) -> None:
    clients, others = two_servers(scene, ready=0)

    def publish() -> None:
        [messages] = clients.run(clients.publish_batch("a", 2))
        if not all(message.is_published for message in messages):
            scene.say(partial(Ledger.breaks, text="a batch failed, though nothing had"))

    interleave(scene, step, clients.files, publish, others.server.sweep)


def publish_own_id_twice(
    scene: Scene, step: Chance, in_a_batch: int = 0, others_beside: int = 0
) -> None:
    """In the middle of it another server does the same, and the message goes all its way."""
    clients, others = two_servers(scene, ready=0)
    clients.files.calls.clear()

    def live_and_die() -> None:
        if clients.files.calls.count("lock_byte") <= others_beside:
            return
        others.run(others.publish("a", own_id="own"))
        message = scene.ledger.messages[b"own "]
        if message.is_published:
            others.run(others.remove("a", "own"))
            reap(scene.root, scene.files())

    def publish() -> None:
        if in_a_batch:
            clients.run(clients.publish_batch("a", in_a_batch, own_id="own"))
        else:
            ids = ["own", *(f"beside-{number}" for number in range(others_beside))]
            clients.run(*(clients.publish("a", own_id=each) for each in ids))

    interleave(scene, step, clients.files, publish, live_and_die)


DUELS = {
    duel.name: duel
    for duel in (
        Row("two receivers", two_receivers),
        Row("two receivers of many", partial(two_receivers, most=2)),
        Row("two receivers of two queues", two_receivers_of_two_queues),
        Row("put back late", put_back_late),
        Row("put back what is back", partial(put_back_late, is_back=True)),
        Row("remove late", remove_late),
        Row("remove several late", remove_several_late),
        Row("prolong late", prolong_late),
        Row("show late", show_late),
        Row("two movers", two_movers),
        Row("sweep while publishing", sweep_while_publishing),
        Row("sweep while publishing together", partial(sweep_while_publishing, count=2)),
        Row("deliver as it is while publishing", sweep_while_publishing, REPLACING),
        Row(
            "deliver as they are while publishing",
            partial(sweep_while_publishing, count=2),
            REPLACING,
        ),
        Row("sweep while a publish fails", sweep_while_a_publish_fails),
        Row("sweep while uploading", sweep_while_publishing, OLD),
        Row("sweep while starting", sweep_while_starting),
        Row("make while deleting", make_while_deleting),
        Row(
            "make with settings while deleting",
            partial(make_while_deleting, settings=SOME_SETTINGS),
        ),
        Row("others come while making with settings", others_come_while_making),
        Row("delete while making", delete_while_making),
        Row("make again while deleting", make_again_while_deleting),
        Row("delete while publishing", delete_while_publishing),
        Row("delete while publishing together", partial(delete_while_publishing, count=2)),
        Row("delete while publishing an own id", partial(delete_while_publishing, own_id="own")),
        Row(
            "delete while publishing own ids together",
            partial(delete_while_publishing, own_id="own", count=2),
        ),
        Row("receive while deleting", take_while_deleting),
        Row("receive together while deleting", take_together_while_deleting),
        Row("remove while deleting", partial(take_while_deleting, is_removal=True)),
        Row("seal while deleting", seal_while_deleting),
        Row("sweep while publishing a batch", sweep_while_publishing_a_batch),
        Row("publish an own id twice", publish_own_id_twice),
        Row("publish an own id together twice", partial(publish_own_id_twice, others_beside=1)),
        Row("receive while purging", receive_while_purging),
        Row("come and go while purging", come_and_go_while_purging),
        Row("purge while receiving", purge_while_receiving),
        Row("sweep while purging", sweep_while_purging),
        Row("release while purging", end_while_purging),
        Row("remove while purging", partial(end_while_purging, is_removal=True)),
        Row("purge in the middle of a receive", purge_within_a_receive, REPLACING),
        Row("purge in the middle of a redelivery", purge_within_a_redelivery, REPLACING),
        Row("receive while purging a folder", by_folder(receive_while_purging)),
        Row("purge a folder while receiving", by_folder(purge_while_receiving)),
        Row("sweep while purging a folder", by_folder(sweep_while_purging)),
        Row("release while purging a folder", by_folder(end_while_purging)),
        Row("redeliver while purging a folder", redeliver_while_purging),
        Row("deliver while purging a folder", deliver_while_purging),
        Row("roll forward while purging a folder", partial(deliver_while_purging, is_batch=True)),
        Row("publish an own id in a batch", partial(publish_own_id_twice, in_a_batch=2)),
        *MOVING_DUELS,
        *SEVERAL_DUELS,
        *REUSE_DUELS,
        *HANDOVER_DUELS,
    )
}


def _publish_or_break(scene: Scene, clients: PlayedClients, count: int) -> None:
    messages = clients.run(*(clients.publish("a") for _ in range(count)))
    if not all(each.is_published for each in messages):
        scene.say(partial(Ledger.breaks, text="a publish failed, though nothing had"))
