"""Change how long a received message is hidden, under its lease, as `ChangeMessageVisibility`
does."""

from __future__ import annotations

from functools import partial

from mq.errors import StoreUnavailable
from mq.names import MessageId, QueueName
from tests.crash.enumeration.acting import (
    Chance,
    interleave,
    known_in,
    lease_seconds,
    step_in_before,
    stock,
    two_servers,
)
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.clock import LONG_SECONDS, SECOND_NS, SHORT_SECONDS
from tests.crash.enumeration.known import GivenLease, LedgerMessage
from tests.crash.enumeration.ledger import Ledger
from tests.crash.enumeration.promises import Is
from tests.crash.enumeration.scene import Scene


def change_visibility(scene: Scene, chance: Chance) -> None:
    """Hide messages for longer or shorter, or show them; another server receives one that is shown
    before the barrier is over."""
    clients = stock(scene, chance, ready=chance.randrange(2), leased=chance.randint(1, 3))
    others = PlayedClients(scene)
    for _ in range(2):
        chosen = [each for each in known_in(scene, "a") if each.lease]
        seconds = [chance.choice([0.0, SHORT_SECONDS, LONG_SECONDS]) for _ in chosen]
        if chance.random() < 0.5:
            step_in_before(clients.files, "sync", lambda: others.run(others.receive("a")))
        clients.run(*map(partial(_change, clients), chosen, seconds))
        clients.files.before = None
    clients.run(clients.receive("a", lease_seconds(chance)), clients.publish("a.b"))


def show_late(scene: Scene, step: Chance) -> None:
    """Show a message that others have shown and received meanwhile."""
    clients, others = two_servers(scene, ready=1)
    [received] = clients.run(clients.receive("a", LONG_SECONDS))
    message = scene.ledger.of(received.message_id)

    def show_and_receive() -> None:
        others.run(_change(others, message, 0))
        others.run(others.receive("a", LONG_SECONDS))

    interleave(
        scene,
        step,
        clients.files,
        lambda: clients.run(_change(clients, message, 0)),
        show_and_receive,
    )


async def _change(clients: PlayedClients, message: LedgerMessage, seconds: float) -> None:
    """Ask for that under the message's lease; with 0 seconds it is shown."""
    say, lease, begun_ns = clients.scene.say, message.lease, clients.scene.clock.now_ns
    message_id, until_ns = str(message.message_id), begun_ns + int(seconds * SECOND_NS)
    if seconds:
        say(partial(Ledger.asks_take, message_id=message_id, until_ns=until_ns))
    else:
        say(partial(Ledger.asks_release, message_id=message_id, is_uncounted=False))
    is_changed, is_certain = False, True
    try:
        is_changed = await clients.store.change_visibility(
            QueueName(message.queue), MessageId(message_id), lease, seconds
        )
    except StoreUnavailable:
        is_certain = False
    if seconds and is_changed:
        given = GivenLease(lease, begun_ns, until_ns)
        say(partial(Ledger.is_taken, message_id=message_id, lease=given))
    elif seconds:
        say(partial(Ledger.is_not_taken, message_id=message_id, is_certain=is_certain, why="412"))
    elif is_changed:
        say(partial(_is_shown, message_id=message_id, lease=lease))


def _is_shown(ledger: Ledger, message_id: str, lease: int) -> None:
    """Note that a message is ready, unless another client has received it meanwhile."""
    message = ledger.of(message_id)
    if message.lease == lease:
        message.hidden, message.hidden_until_ns = Is.NOT, 0
