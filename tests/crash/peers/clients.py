"""What clients may ask of any store, each request stopped at any file call."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from mq.lifecycle import SHOWN_STATES, PurgeScope, State
from mq.names import MessageId, QueueName
from mq.store.receiving.received_message import Received
from tests.crash.peers.ending import Delete, PurgeQueue, Remove
from tests.crash.peers.looking import Count, Peek, PeekAt
from tests.crash.peers.moving import MoveById, MoveReady, Redrive
from tests.crash.peers.publishing import ChangeSettings, Create, Publish
from tests.crash.peers.receiving import PutBack, Receive, Release, Take
from tests.crash.peers.referee import STORES, Referee
from tests.crash.peers.stepping import TO_THE_END
from tests.crash.peers.story import PeerRequest

QUEUES = st.sampled_from([QueueName("a"), QueueName("b"), QueueName("a.dead")])
STORE = st.integers(0, STORES - 1)
CALLS = st.just(TO_THE_END) | st.integers(0, 12) | st.integers(0, 40)
"""After how many file calls an actor stops."""
INDEX = st.integers(0, 1000)
SECONDS = st.sampled_from([None, 10.0, 100.0, 1000.0])
LIMITS = st.sampled_from([1, 1, 2, 10])
PUBLISHED = st.tuples(
    st.integers(0, 4),
    st.sampled_from([0, 0, 100]),
    st.lists(st.sampled_from([1, 2]), unique=True, max_size=2),
)
"""How many messages without an id of their own, their delay in seconds, and the other ids."""
SETTINGS = st.sampled_from([
    {"paused": "true"}, {"paused": ""}, {"ttl": "500"}, {"ttl": ""}, {"visibility": "200"},
    {"visibility": ""}, {"max-receives": "1"}, {"max-receives": "0"}, {"max-receives": ""},
    {"max-messages": "3"}, {"max-messages": ""},
])  # fmt: skip


class PeerClients(RuleBasedStateMachine):
    """Clients of three stores on one root."""

    folder: Path | None = None
    """Where roots are made; None for the usual place."""

    def __init__(self) -> None:
        super().__init__()
        self._temporary = TemporaryDirectory(dir=self.folder)
        self.root = Path(self._temporary.name, "root")
        self.referee = Referee(self.root)
        self.receipts: list[Received] = []
        self.moved: set[MessageId] = set()
        self._bodies = 0

    def teardown(self) -> None:
        self.referee.close()
        self._temporary.cleanup()

    # Who asks, and of which message

    def ask(self, store: int, request: PeerRequest, calls: int) -> None:
        idle = self.referee.idle_stores()
        actor = idle[store % len(idle)]
        self.note(self.referee.begin(actor, actor.work_on(request), request, calls))

    def note(self, outcome: Any) -> None:
        """Remember what was received."""
        taken = outcome if isinstance(outcome, list) else [outcome]
        self.receipts += [
            each[0] for each in taken if isinstance(each, tuple) and isinstance(each[0], Received)
        ]

    def is_free(self) -> bool:
        return bool(self.referee.idle_stores())

    def may_move(self) -> bool:
        """Whether no id of a producer's comes where a message with it has just left."""
        return self.is_free() and not self.referee.is_doing(Publish)

    def pick(self, index: int) -> tuple[QueueName, MessageId]:
        """Any message, mostly one that is there."""
        live = self.referee.world.messages
        ids = [*live, *list(self.referee.bodies)[-2:]] or [MessageId("none")]
        message_id = ids[index % len(ids)]
        seen = live.get(message_id)
        return QueueName("a") if seen is None else seen.queue, message_id

    def leases_of(self, message_id: MessageId, which: int) -> frozenset[int] | None:
        """Return no lease, the right one, or one that a client was given."""
        seen = self.referee.world.messages.get(message_id)
        given = [each.lease for each in self.receipts] or [1]
        lease = given[which % len(given)] if seen is None or which % 3 == 2 else seen.lease
        return None if which % 3 == 0 else frozenset({lease or 1})

    # PeerClients

    @initialize()
    def begin_with_messages(self) -> None:
        for queue in map(QueueName, ("a", "b", "a.dead")):
            self.ask(0, Create(queue), TO_THE_END)
            bodies = self.new_bodies(3)
            self.ask(0, Publish(queue, bodies, [None] * 3, 0, is_batch=True), TO_THE_END)

    def new_bodies(self, number: int) -> list[bytes]:
        self._bodies += number
        return [b"body %d" % (self._bodies - each) for each in reversed(range(number))]

    @precondition(is_free)
    @rule(store=STORE, queue=QUEUES, what=PUBLISHED, calls=CALLS)
    def publish(
        self, store: int, queue: QueueName, what: tuple[int, int, list[int]], calls: int
    ) -> None:
        """One message, or a batch; some under ids of their own."""
        number, delay, own = what
        ids = [MessageId(f"own-{queue.replace('.', '-')}-{each}") for each in own]
        if self.referee.is_doing(MoveReady, MoveById, Redrive):
            ids = []
        ids = [each for each in ids if each not in self.moved]
        new = self.new_bodies(max(number, 1) if not ids else number)
        bodies = [each.encode() for each in ids] + new
        request = Publish(
            queue, bodies, [*ids, *[None] * len(new)], delay, is_batch=len(bodies) > 1
        )
        self.ask(store, request, calls)

    @precondition(is_free)
    @rule(store=STORE, queue=QUEUES, limit=LIMITS, seconds=SECONDS, calls=CALLS)
    def receive(
        self, store: int, queue: QueueName, limit: int, seconds: float | None, calls: int
    ) -> None:
        self.ask(store, Receive(queue, limit, seconds), calls)

    @precondition(is_free)
    @rule(store=STORE, index=INDEX, which=INDEX, seconds=st.sampled_from([10.0, 1000.0]),
          calls=CALLS)  # fmt: skip
    def take(self, store: int, index: int, which: int, seconds: float, calls: int) -> None:
        queue, message_id = self.pick(index)
        self.ask(store, Take(queue, message_id, self.leases_of(message_id, which), seconds), calls)

    @precondition(is_free)
    @rule(store=STORE, index=INDEX, which=INDEX, calls=CALLS)
    def release(self, store: int, index: int, which: int, calls: int) -> None:
        queue, message_id = self.pick(index)
        self.ask(store, Release(queue, message_id, self.leases_of(message_id, which)), calls)

    @precondition(lambda self: self.is_free() and self.receipts)
    @rule(store=STORE, index=INDEX, calls=CALLS)
    def put_back(self, store: int, index: int, calls: int) -> None:
        self.ask(store, PutBack(self.receipts[index % len(self.receipts)]), calls)

    @precondition(is_free)
    @rule(store=STORE, index=INDEX, which=INDEX, calls=CALLS)
    def remove(self, store: int, index: int, which: int, calls: int) -> None:
        queue, message_id = self.pick(index)
        self.ask(store, Remove(queue, message_id, self.leases_of(message_id, which)), calls)

    @precondition(may_move)
    @rule(store=STORE, source=QUEUES, to=QUEUES, limit=LIMITS, calls=CALLS)
    def move(self, store: int, source: QueueName, to: QueueName, limit: int, calls: int) -> None:
        if source != to:
            self.moved.update(self.referee.world.of_queue(source))
            self.ask(store, MoveReady(source, to, limit), calls)

    @precondition(may_move)
    @rule(store=STORE, index=INDEX, to=QUEUES, which=INDEX, calls=CALLS)
    def move_by_id(self, store: int, index: int, to: QueueName, which: int, calls: int) -> None:
        queue, message_id = self.pick(index)
        if queue != to:
            self.moved.add(message_id)
            leases = self.leases_of(message_id, which)
            self.ask(store, MoveById(queue, to, message_id, leases), calls)

    @precondition(may_move)
    @rule(store=STORE, limit=LIMITS, calls=CALLS)
    def redrive(self, store: int, limit: int, calls: int) -> None:
        self.moved.update(self.referee.world.of_queue(QueueName("a.dead")))
        self.ask(store, Redrive(QueueName("a.dead"), limit), calls)

    @precondition(is_free)
    @rule(store=STORE, queue=QUEUES, scope=st.sampled_from(PurgeScope), calls=CALLS)
    def purge(self, store: int, queue: QueueName, scope: PurgeScope, calls: int) -> None:
        self.ask(store, PurgeQueue(queue, scope), calls)

    @precondition(is_free)
    @rule(store=STORE, queue=QUEUES, calls=CALLS)
    def create(self, store: int, queue: QueueName, calls: int) -> None:
        self.ask(store, Create(queue), calls)

    @precondition(lambda self: self.is_free() and len(self.referee.world.settings) == 3)
    @rule(store=STORE, queue=QUEUES, calls=CALLS)
    def delete(self, store: int, queue: QueueName, calls: int) -> None:
        self.ask(store, Delete(queue), calls)

    @precondition(is_free)
    @rule(store=STORE, queue=QUEUES, changes=SETTINGS, calls=CALLS)
    def change_settings(
        self, store: int, queue: QueueName, changes: dict[str, str], calls: int
    ) -> None:
        if not (queue.endswith(".dead") and "max-receives" in changes):
            self.ask(store, ChangeSettings(queue, changes), calls)

    @precondition(is_free)
    @rule(store=STORE, queue=QUEUES, limit=LIMITS, state=st.sampled_from(SHOWN_STATES), calls=CALLS)
    def peek(self, store: int, queue: QueueName, limit: int, state: State, calls: int) -> None:
        self.ask(store, Peek(queue, limit, state), calls)

    @precondition(is_free)
    @rule(store=STORE, index=INDEX, calls=CALLS)
    def peek_at(self, store: int, index: int, calls: int) -> None:
        self.ask(store, PeekAt(*self.pick(index)), calls)

    @precondition(is_free)
    @rule(store=STORE, queue=QUEUES, calls=CALLS)
    def count(self, store: int, queue: QueueName, calls: int) -> None:
        self.ask(store, Count(queue), calls)
