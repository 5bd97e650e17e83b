"""Publish to several queues at once, all or none.

The messages of one batch differ from queue to queue here, because bodies tell them apart.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from mq.commit.operation import Operation
from mq.config import SECOND_NS
from mq.errors import MQError, QueueNotFound, StoreUnavailable
from mq.names import MessageId, QueueName
from mq.store.publishing.batch import check_queues, publish_placed
from mq.store.publishing.parts import Placed
from mq.store.publishing.publish import Draft, Entry, Published
from mq.store.receiving.received_message import Received
from mq.store.removing.remove_under_lease import Removed
from mq.store.shared_state import Workspace
from tests.crash.enumeration.acting import Chance, failing_once, lease_seconds, stock
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.ledger import Ledger
from tests.crash.enumeration.properties import draft_of, properties_of
from tests.crash.enumeration.scene import Scene

QUEUES = ("a", "a.b")
OWN = MessageId("own")


async def publish_to_all(
    clients: PlayedClients,
    number: int = 1,
    delay_seconds: float = 0.0,
    *,
    has_own_id: bool = False,
    is_large: bool = False,
    removes: Received | None = None,
) -> bool:
    """Publish `number` messages to each of both queues, every second one delayed if there is a
    delay, and the first to `a` under its own id if there is one. A large body, that of the last to
    `a`, is in a file. With `removes` they take that message away of `a`. Returns whether
    that was answered."""
    entries = ask(clients.scene, number, delay_seconds, has_own_id)
    say = clients.scene.say
    bodies = frozenset(each.draft.body or b"" for some in entries.values() for each in some)
    asked: Removed = None
    if removes is not None:
        asked = QueueName("a"), removes.message_id, frozenset({removes.lease})
        say(partial(Ledger.asks_handover, message_id=removes.message_id, bodies=bodies))
    try:
        async with AsyncExitStack() as files:
            sent = {each: [*some] for each, some in entries.items()}
            if is_large:
                some = sent[QueueName("a")]
                some[-1] = some[-1]._replace(draft=await _upload(clients, some[-1].draft, files))
            publishing = partial(_publish, entries=sent, removes=asked)
            published = await clients.store.run(publishing)
    except MQError as error:
        if isinstance(error, QueueNotFound):
            [missing] = [each for each in QUEUES if f"no queue {each};" in str(error)]
            say(partial(Ledger.is_missing, queue=missing))
        if not isinstance(error, StoreUnavailable):
            say(partial(Ledger.is_refused, bodies=bodies))
        if removes is not None:
            clients.say_removed(removes.message_id, removes.lease, error)
        return False
    if removes is not None:
        clients.say_removed(removes.message_id, removes.lease, None)
    for some, part in zip(entries.values(), published, strict=True):
        for (_, draft, _), (message_id, *_) in zip(some, part, strict=True):
            say(partial(Ledger.is_published, body=draft.body or b"", message_id=message_id))
    return True


async def _upload(clients: PlayedClients, draft: Draft, files: AsyncExitStack) -> Draft:
    body = draft.body or b""
    async with clients.store.open_upload() as upload:
        whole = await upload.finish(body, draft.content_type, properties_of(body))
    files.callback(clients.files.close, whole.fd)
    return replace(whole, message_id=draft.message_id, delay_ns=draft.delay_ns)


def ask(
    scene: Scene, number: int, delay_seconds: float = 0.0, has_own_id: bool = False
) -> dict[QueueName, list[Entry]]:
    """Tell the ledger what is asked for."""
    entries: dict[QueueName, list[Entry]] = {QueueName(each): [] for each in QUEUES}
    for queue, some in entries.items():
        for line in range(1, number + 1):
            own = OWN if has_own_id and not some and queue == "a" else None
            body = f"{own} ".encode() if own else scene.body(10)
            delay_ns = int(delay_seconds * SECOND_NS) * (line % 2)
            due_ns = scene.clock.now_ns + delay_ns if delay_ns else 0
            asks = partial(Ledger.asks_publish, is_ordered=own is None or scene.has_seals)
            scene.say(partial(asks, queue=queue, body=body, hidden_until_ns=due_ns))
            some.append(Entry(line, draft_of(body, own, delay_ns)))
    bodies = frozenset(each.draft.body or b"" for some in entries.values() for each in some)
    scene.say(partial(Ledger.asks_batch, bodies=bodies))
    return entries


def _publish(
    work: Workspace, entries: dict[QueueName, list[Entry]], removes: Removed
) -> Operation[list[list[Published]]]:
    ids = {queue: [each.draft.message_id for each in some] for queue, some in entries.items()}
    yield from check_queues(work, ids)
    return (yield from publish_placed(work, placed_in(work, entries), removes))


def placed_in(work: Workspace, entries: dict[QueueName, list[Entry]]) -> dict[QueueName, Placed]:
    positions = {
        queue: work.ids.next_positions([each.draft.message_id for each in some])
        for queue, some in entries.items()
    }
    return {
        queue: list(zip(some, positions[queue], strict=True)) for queue, some in entries.items()
    }


def publish_to_several(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=chance.randrange(2))
    for has_own_id in (False, chance.random() < 0.5):
        delay_seconds = chance.choice([0.0, lease_seconds(chance)])
        number, is_large = chance.randint(1, 3), chance.random() < 0.5
        several = publish_to_all(
            clients, number, delay_seconds, has_own_id=has_own_id, is_large=is_large
        )
        clients.run(several, clients.publish(chance.choice(QUEUES)))
    clients.run(*(clients.receive(each, lease_seconds(chance)) for each in QUEUES))


def deliver_left_to_several(scene: Scene, chance: Chance) -> None:
    """What a sweep finds of a batch that its publisher could not deliver, all of it or the rest;
    then a call of the sweep fails too."""
    clients = stock(scene, chance, ready=chance.randrange(2))
    for is_hindered in (False, True):
        # The first rename is the seal.
        with clients.failing("rename", after=chance.randint(1, 3)):
            clients.run(publish_to_all(clients, chance.randint(1, 2)))
        if is_hindered:
            call, least = chance.choice([("lock", 1), ("rename", 0)])
            with failing_once(clients.files, call, chance.randint(least, least + 3)):
                clients.server.sweep()
        clients.server.sweep()
    clients.run(*(clients.receive(each, lease_seconds(chance)) for each in QUEUES))


def end_one_of_several(scene: Scene, chance: Chance) -> None:
    """One of the queues is deleted or purged while a batch for both is not delivered."""
    clients = stock(scene, chance, ready=chance.randrange(2))
    with clients.failing("rename", after=chance.randint(1, 3)):
        clients.run(publish_to_all(clients, chance.randint(1, 2)))
    end_one(clients, chance)


def end_one(clients: PlayedClients, chance: Chance) -> None:
    """Delete or purge one of the queues, sweep, and receive what is left."""
    queue = chance.choice(QUEUES)
    clients.run(clients.delete(queue) if chance.random() < 0.5 else clients.purge(queue))
    if chance.random() < 0.5:
        clients.run(clients.create(queue))
    clients.server.sweep()
    clients.run(*(clients.receive(each, lease_seconds(chance)) for each in QUEUES))
