"""What is run on FIFO queues. What a run chooses it takes from a generator that starts with the
number of the run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count

from mq.spool.message.seal import Seal
from mq.store.receiving.received_message import Received
from tests.crash.enumeration.acting import Chance, long_queues
from tests.crash.enumeration.clock import LONG_SECONDS, SHORT_SECONDS
from tests.crash.enumeration.scene import Scene
from tests.crash.fifo.clients import FifoClients
from tests.crash.fifo.ledger import FifoLedger
from tests.support.fifo import DEAD_LINE, LINE, in_order

GROUPS = "ab"


class FifoPlay:
    """What clients of a gateway do with two groups; `later` are those of another, which waits for
    its end."""

    def __init__(self, scene: Scene, chance: Chance, notes: dict[str, str] | None = None) -> None:
        self.scene = scene
        self.chance = chance
        self.clients = FifoClients(scene, FifoLedger())
        self.later = FifoClients(scene, self.clients.ledger)
        self._numbers = count()
        self.clients.make_queues(notes or {})
        scene.settle()
        scene.begin()

    def bodies(self, group: str, number: int) -> list[str]:
        """Return bodies that no message has had."""
        return [f"{group}{next(self._numbers)}" for _ in range(number)]

    def send(self, most: int = 3) -> None:
        """Send to both groups at once, one message or a batch."""
        sizes = [self.chance.randint(1, most) for _ in GROUPS]
        pairs = zip(GROUPS, sizes, strict=True)
        self.clients.run(*(self.clients.send(g, *self.bodies(g, size)) for g, size in pairs))

    def receive(self, limit: int = 1, seconds: float = LONG_SECONDS) -> list[Received]:
        [taken] = self.clients.run(self.clients.receive(limit, seconds))
        return list(taken)

    def let_leases_end(self) -> None:
        self.scene.clock.pass_seconds(2)
        with suppress(OSError):
            self.scene.move()
        self.clients.run(self.clients.look())


def send(scene: Scene, chance: Chance) -> None:
    play = FifoPlay(scene, chance)
    for _ in range(chance.randint(1, 3)):
        play.send(chance.choice([1, 3, 6]))


def receive_and_remove(scene: Scene, chance: Chance) -> None:
    play = FifoPlay(scene, chance)
    play.send()
    for _ in range(chance.randint(1, 3)):
        taken = play.receive(chance.choice([1, 2, 10]))
        done = taken[: chance.randint(0, len(taken))]
        play.clients.run(*(play.clients.remove(each) for each in done))
    play.send(1)


def change_visibility(scene: Scene, chance: Chance) -> None:
    play = FifoPlay(scene, chance)
    play.send()
    for _ in range(2):
        taken = play.receive(chance.choice([1, 3]), chance.choice([LONG_SECONDS, SHORT_SECONDS]))
        play.clients.run(*(play.clients.show(each) for each in taken[:1]))
        play.let_leases_end()
    play.send(1)


def purge(scene: Scene, chance: Chance) -> None:
    """Purge a queue with messages in flight, in both ways."""
    play = FifoPlay(scene, chance)
    play.send()
    play.receive(chance.choice([1, 2]))

    def empty() -> None:
        more = play.bodies("a", chance.randint(1, 2))
        play.clients.run(play.clients.purge(), play.clients.send("a", *more))

    if chance.random() < 0.5:
        empty()
    else:
        with long_queues():
            empty()
    play.send(2)


def purge_and_forget(scene: Scene, chance: Chance) -> None:
    """After `PurgeQueue` all can be sent again, and so it is when a gateway is started again."""
    play = FifoPlay(scene, chance)
    for _ in range(2):
        play.send(chance.choice([1, 3]))
        play.receive(chance.choice([1, 2]))
        more = [play.clients.send("a", *play.bodies("a", 1))] if chance.random() < 0.5 else []
        play.clients.run(play.clients.purge_queue(), *more)
    play.send(1)


def dead_letters(scene: Scene, chance: Chance) -> None:
    play = FifoPlay(scene, chance, {"max-receives": "1", "dead-letters": DEAD_LINE})
    play.send()
    for _ in range(2):
        taken = play.receive(chance.choice([1, 2, 3]), SHORT_SECONDS)
        if chance.random() < 0.5:
            play.clients.run(*(play.clients.show(each) for each in taken[:1]))
        play.let_leases_end()
        if chance.random() < 0.5:
            play.send(1)


def move_back(scene: Scene, chance: Chance) -> None:
    """A move task brings dead letters back, a few at a time."""
    play = FifoPlay(scene, chance, {"max-receives": "1", "dead-letters": DEAD_LINE})
    play.send()
    for each in play.receive(chance.choice([2, 4]), SHORT_SECONDS):
        play.clients.run(play.clients.show(each))
    for _ in range(2):
        play.clients.run(play.clients.move_back(chance.randint(1, 3)))
        play.send(1)


def take_over(scene: Scene, chance: Chance) -> None:
    """A gateway ends and leaves messages in `new`; the next one had been started before."""
    play = FifoPlay(scene, chance)
    first, later = play.clients, play.later

    def fail(call: str) -> None:
        if call == "rename":
            raise OSError(5, "no delivery")

    first.files.before = fail
    play.send(chance.choice([1, 3]))
    first.files.before = None
    first.line.service.close()
    play.clients = later
    if chance.random() < 0.7:
        # The first one is killed when this has its name, and its sender tries again.
        [body] = play.bodies("a", 1)
        first.say(FifoLedger.asks_send, group="a", body=body)
        message_id, published_ns = first.server.work.ids.next_position()
        draft = in_order(body, "a", body).draft
        data = (draft.body or b"") + draft.trailer
        scene.place(f"new/{LINE}:{message_id}", data, Seal.unpack(draft.seal(published_ns)))
        later.run(later.send("a", body))
    play.send(1)
    play.receive(2)


PLAYS: dict[str, Callable[[Scene, Chance], None]] = {
    "send": send,
    "receive and remove": receive_and_remove,
    "change visibility": change_visibility,
    "purge": purge,
    "purge and forget": purge_and_forget,
    "dead letters": dead_letters,
    "move back": move_back,
    "take over": take_over,
}
