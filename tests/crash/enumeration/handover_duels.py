"""Duels about a message that is handed over for a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mq.store.receiving.received_message import Received
from tests.crash.enumeration.acting import Chance, interleave, redeliver_and_receive, two_servers
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.clock import LONG_SECONDS, SHORT_SECONDS
from tests.crash.enumeration.ledger import Ledger
from tests.crash.enumeration.purge_duels import without_patience
from tests.crash.enumeration.recorder import OLD
from tests.crash.enumeration.reuse_duels import receive_what_comes_again
from tests.crash.enumeration.rows import Row
from tests.crash.enumeration.scene import Scene
from tests.crash.enumeration.several import QUEUES, publish_to_all


def hand_over_late(scene: Scene, step: Chance) -> None:
    """A message is handed over under a lease that is over."""
    clients, others = two_servers(scene, ready=1)
    [received] = clients.run(clients.receive("a", SHORT_SECONDS))
    scene.clock.pass_seconds(2)

    _hand_over_beside(scene, step, clients, received, lambda: redeliver_and_receive(scene, others))


def hand_over_while_it_comes_again(scene: Scene, step: Chance) -> None:
    """Its queue is deleted and made again, and has another message with its id by then."""
    clients, others = two_servers(scene, ready=0)
    clients.run(clients.publish("a", own_id="own"))
    [received] = clients.run(clients.receive("a", LONG_SECONDS))

    with without_patience():
        _hand_over_beside(
            scene, step, clients, received, lambda: receive_what_comes_again(scene, others)
        )


def sweep_while_handing_over(scene: Scene, step: Chance) -> None:
    clients, others = two_servers(scene, ready=1)
    [received] = clients.run(clients.receive("a", LONG_SECONDS))

    def hand_over() -> None:
        [is_answered] = clients.run(publish_to_all(clients, removes=received))
        if not is_answered:
            scene.say(partial(Ledger.breaks, text="a handover failed, though nothing had"))

    interleave(scene, step, clients.files, hand_over, others.server.sweep)
    others.run(*(others.receive(each) for each in QUEUES))


def end_while_handing_over(
    scene: Scene, step: Chance, queue: str, *, is_purge: bool = False
) -> None:
    """A queue that it publishes to, or that of its message, is deleted and made again, or
    purged."""
    clients, others = two_servers(scene, ready=1)
    [received] = clients.run(clients.receive("a", LONG_SECONDS))

    def end() -> None:
        others.run(others.purge(queue) if is_purge else others.delete(queue))
        if not is_purge:
            others.run(others.create(queue))

    with without_patience():
        _hand_over_beside(scene, step, clients, received, end)
    others.server.sweep()


def publish_what_is_handed_over(scene: Scene, step: Chance) -> None:
    """Its producer publishes the message again, under the id that it gave to it."""
    clients, others = two_servers(scene, ready=0)
    clients.run(clients.publish("a", own_id="own"))
    [received] = clients.run(clients.receive("a", LONG_SECONDS))

    def publish_again() -> None:
        others.run(others.publish("a", own_id="own"))

    _hand_over_beside(scene, step, clients, received, publish_again)


def remove_what_is_handed_over(scene: Scene, step: Chance) -> None:
    """Another client removes it by its id alone, and relies on what it is told."""
    clients, others = two_servers(scene, ready=1)
    [received] = clients.run(clients.receive("a", LONG_SECONDS))

    def remove() -> None:
        others.run(others.remove("a", received.message_id))

    _hand_over_beside(scene, step, clients, received, remove)


HANDOVER_DUELS = (
    Row("hand over late", hand_over_late),
    Row("hand over while its id comes again", hand_over_while_it_comes_again),
    Row("sweep while handing over", sweep_while_handing_over),
    Row("sweep while handing over, no renames without replacing", sweep_while_handing_over, OLD),
    Row("delete a queue while handing over for it", partial(end_while_handing_over, queue="a.b")),
    Row(
        "delete a queue while handing over its message", partial(end_while_handing_over, queue="a")
    ),
    Row("purge while handing over", partial(end_while_handing_over, queue="a", is_purge=True)),
    Row("publish what is handed over", publish_what_is_handed_over),
    Row("remove what is handed over", remove_what_is_handed_over),
)


def _hand_over_beside(
    scene: Scene,
    step: Chance,
    clients: PlayedClients,
    received: Received,
    other: Callable[[], object],
) -> None:
    """Hand a message over, while another actor does something."""
    handing_over = partial(publish_to_all, clients, removes=received)
    interleave(scene, step, clients.files, lambda: clients.run(handing_over()), other)
