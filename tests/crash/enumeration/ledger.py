"""What clients were promised: a ledger is told what was asked for and what was answered, in order.

In between an operation may have happened or not; after a 503, too. Bodies are unique: they tell
messages apart before an id is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.crash.enumeration.known import GivenLease, LedgerMessage
from tests.crash.enumeration.promises import Got, Is, Promise, Promises


@dataclass
class Ledger:
    """All messages and queues that clients know of."""

    max_receives: int = 0
    messages: dict[bytes, LedgerMessage] = field(default_factory=dict)
    queues: dict[str, Is] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    kept: set[bytes] = field(default_factory=set)
    batches: set[frozenset[bytes]] = field(default_factory=set)
    handovers: set[tuple[bytes, frozenset[bytes]]] = field(default_factory=set)
    receiving: Counter[str] = field(default_factory=Counter)
    deleting: Counter[str] = field(default_factory=Counter)
    purging: Counter[str] = field(default_factory=Counter)
    creating: Counter[str] = field(default_factory=Counter)
    made_meanwhile: set[str] = field(default_factory=set)
    deleted_meanwhile: set[str] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)

    def freeze(self) -> Promises:
        messages = frozenset(self._promise(message) for message in self.messages.values())
        batches = frozenset(filter(self._may_be_there_whole, self.batches))
        handovers = frozenset(each for each in self.handovers if self._is_open(*each))
        by_name = frozenset(self.queues.items()), frozenset(self.settings.items())
        return Promises(messages, *by_name, frozenset(self.kept), batches, handovers)

    def _is_open(self, body: bytes, batch: frozenset[bytes]) -> bool:
        """Whether nobody but this handover takes anything of it away."""
        return self.messages[body].may_be_handed_over and self._may_be_there_whole(batch)

    def _may_be_there_whole(self, batch: frozenset[bytes]) -> bool:
        """Whether messages are there only together: nobody takes one away."""
        return all(self.messages[each].may_be_part for each in batch)

    def _promise(self, message: LedgerMessage) -> Promise:
        there = (message.queue, f"{message.queue}.dead", *message.moving)
        receives = sum(self.receiving[queue] for queue in there)
        return message.promise(receives, self.max_receives)

    def gone(self) -> frozenset[bytes]:
        return frozenset(m.body for m in self.messages.values() if m.exists is Is.NOT)

    def of(self, message_id: str) -> LedgerMessage:
        return next(m for m in self.messages.values() if m.message_id == message_id)

    def of_queue(self, queue: str) -> list[LedgerMessage]:
        return [each for each in self.messages.values() if each.queue == queue]

    # Publishing

    def asks_publish(
        self, queue: str, body: bytes, hidden_until_ns: int = 0, *, is_ordered: bool = True
    ) -> None:
        """The same body again is the same message, under its own id."""
        hidden = Is.SURE if hidden_until_ns else Is.NOT
        message = LedgerMessage(body, queue, hidden=hidden, hidden_until_ns=hidden_until_ns)
        message.is_doubtful = self.deleting[queue] + self.purging[queue] > 0
        older = (m.body for m in self.messages.values() if m.is_published and m.is_ordered)
        message.is_ordered, message.before = is_ordered, frozenset(older if is_ordered else ())
        self.messages.setdefault(body, message)

    def is_published(self, body: bytes, message_id: str) -> None:
        message = self.messages[body]
        message.is_published = True
        message.message_id = message_id
        if message.exists is Is.MAYBE and not message.is_doubtful:
            message.exists = Is.SURE

    def asks_batch(self, bodies: frozenset[bytes]) -> None:
        """Each of them was asked for before."""
        self.batches.add(bodies)

    def asks_handover(self, message_id: str, bodies: frozenset[bytes]) -> None:
        self.asks_remove(message_id)
        self.handovers.add((self.of(message_id).body, bodies))

    def is_refused(self, bodies: frozenset[bytes]) -> None:
        for each in bodies:
            self.messages[each].exists = Is.NOT

    # Receiving

    def asks_receive(self, queue: str) -> None:
        self.receiving[queue] += 1

    def is_received(self, queue: str, got: Got, lease: GivenLease, gone: frozenset[bytes]) -> None:
        """`gone` are the bodies of messages that had been removed when that was asked."""
        self.receiving[queue] -= 1
        message = self.messages.get(got.body)
        if message is None or queue not in (
            message.queue, f"{message.queue}.dead", *message.moving
        ):  # fmt: skip
            self.broken.append(f"{got} is torn or of another queue")
            return
        if queue in message.moving:
            # That is where it is, whatever its mover is told.
            message.queue, message.hidden = queue, Is.NOT
        if got.body in gone:
            self.broken.append(f"{got} was given out though it was removed")
        if message.hidden is Is.SURE and message.hidden_until_ns > lease.begun_ns:
            self.broken.append(f"{got} was given out within its visibility timeout")
        if message.message_id not in (None, got.message_id):
            self.broken.append(f"{got} had another id: {message.message_id}")
        # Who has it under a durable lease relies on it, whatever the publisher was told.
        if message.exists is Is.MAYBE and not message.removals and not message.is_doubtful:
            message.exists = Is.SURE
        message.message_id = got.message_id
        message.hidden, message.hidden_until_ns = Is.SURE, lease.visible_ns
        message.lease, message.count = lease.number, message.count + 1

    def is_not_received(self, queue: str, *, is_certain: bool) -> None:
        """204 or 404 if that is certain, else 503: some message may be under a lease."""
        self.receiving[queue] -= 1
        if not is_certain:
            for message in self.of_queue(queue):
                if message.hidden is Is.NOT:
                    message.hidden = Is.MAYBE

    def asks_take(self, message_id: str, until_ns: int) -> None:
        """That very message, until then at the latest."""
        message = self.of(message_id)
        message.takings += 1
        message.asked_until_ns = until_ns

    def is_taken(self, message_id: str, lease: GivenLease) -> None:
        message = self.of(message_id)
        message.takings -= 1
        message.count += lease.number != message.lease
        message.hidden, message.hidden_until_ns = Is.SURE, lease.visible_ns
        message.lease = lease.number

    def is_not_taken(self, message_id: str, *, is_certain: bool, why: str) -> None:
        """404 or 412 if that is certain, else 503."""
        message = self.of(message_id)
        message.takings -= 1
        if not is_certain:
            message.hidden = Is.MAYBE
        elif why == "404" and self._promise(message).exists is Is.SURE:
            self.broken.append(f"message {message_id} was not found")

    def asks_release(self, message_id: str, *, is_uncounted: bool) -> None:
        """Note a release, which is not durable by itself: the message may be ready or not."""
        message = self.of(message_id)
        message.hidden = Is.MAYBE
        message.count = max(message.count - is_uncounted, 0)

    # Moving

    def asks_move(self, message_id: str, target: str) -> None:
        self.of(message_id).moving[target] += 1

    def is_moved(self, message_id: str, target: str) -> None:
        message = self.of(message_id)
        self._end_move(message, target)
        if message.queue != target:
            message.queue = target
            message.hidden, message.hidden_until_ns, message.lease, message.count = Is.NOT, 0, 0, 0

    def is_not_moved(
        self, message_id: str, target: str, *, is_certain: bool, is_gone: bool = False
    ) -> None:
        """404, 409 or 412 if that is certain, else 503: it may be there or not. With 404 it is if
        another client moves it there."""
        message = self.of(message_id)
        if is_gone and message.moving[target] > 1:
            self.is_moved(message_id, target)
        elif is_certain:
            self._end_move(message, target)
        elif message.hidden is Is.SURE:
            message.hidden = Is.MAYBE

    @staticmethod
    def _end_move(message: LedgerMessage, target: str) -> None:
        message.moving[target] -= 1
        message.moving += Counter()  # only those above 0 stay

    # Removing

    def asks_remove(self, message_id: str) -> None:
        self.of(message_id).removals += 1

    def is_removed(self, message_id: str, lease: int | None) -> None:
        """`lease` is the one that it was removed under."""
        message = self.of(message_id)
        message.removals -= 1
        message.exists = Is.NOT
        if lease not in (None, message.lease) and message.hidden is Is.SURE:
            self.broken.append(f"message {message_id} was removed under an old lease")

    def is_not_removed(self, message_id: str, *, is_certain: bool, why: str) -> None:
        """404, with which it is gone, or 412 if that is certain, else 503. One that is moved may be
        gone from there."""
        message = self.of(message_id)
        message.removals -= 1
        if not is_certain:
            message.exists = Is.MAYBE if message.exists is Is.SURE else message.exists
        elif why == "404" and not message.moving:
            if self._promise(message).exists is Is.SURE:
                self.broken.append(f"message {message_id} was not found")
            message.exists = Is.NOT

    # Queues

    def asks_create(self, queue: str, settings: str = "") -> None:
        self.creating[queue] += 1
        self.settings |= {queue: settings} if settings else {}
        if self.queues.get(queue, Is.NOT) is Is.NOT:
            self.queues[queue] = Is.MAYBE

    def is_created(self, queue: str, *, is_new: bool) -> None:
        """If it is new, a deletion that is still under way has had its effect."""
        if is_new and self.deleting[queue] == 1:
            self.deleting[queue] = 0
            self.made_meanwhile.add(queue)
        is_sure = not self.deleting[queue] and queue not in self.deleted_meanwhile
        self.queues[queue] = Is.SURE if is_sure else Is.MAYBE
        if self.deleting[queue]:
            self.made_meanwhile.add(queue)
        self.ends_creation(queue)

    def ends_creation(self, queue: str) -> None:
        self.creating[queue] -= 1
        if not self.creating[queue]:
            self.deleted_meanwhile.discard(queue)

    def is_missing(self, queue: str) -> None:
        """404 of something that needs the queue."""
        if self.queues.get(queue) is Is.SURE:
            self.broken.append(f"queue {queue} was not found")

    def asks_delete(self, queue: str, bodies: Iterable[bytes]) -> None:
        """`bodies` are those of the messages that are published by now."""
        self.queues[queue] = Is.MAYBE
        self.deleting[queue] += 1
        if self.creating[queue]:
            self.deleted_meanwhile.add(queue)
        self._asks_to_remove_all(queue, bodies)

    def _asks_to_remove_all(self, queue: str, bodies: Iterable[bytes]) -> None:
        for message in self.of_queue(queue):
            message.is_doubtful |= not message.is_published
        for body in bodies:
            self.messages[body].removals += 1

    def is_deleted(self, queue: str, bodies: Iterable[bytes]) -> None:
        """A client that made the queue meanwhile may have come before or after."""
        if queue not in self.made_meanwhile:
            self.queues[queue] = Is.MAYBE if self.creating[queue] else Is.NOT
        elif self.deleting[queue]:
            self.queues[queue] = Is.MAYBE
        self._end_deletion(queue, bodies, Is.NOT)

    def is_not_deleted(self, queue: str, bodies: Iterable[bytes], *, is_certain: bool) -> None:
        """404, with which there is nothing left of it; else 503, or the process died."""
        self._end_deletion(queue, bodies, Is.NOT if is_certain else Is.MAYBE)

    def _end_deletion(self, queue: str, bodies: Iterable[bytes], exists: Is) -> None:
        self.deleting[queue] = max(self.deleting[queue] - 1, 0)
        self.made_meanwhile.discard(queue)
        self._end_removals(bodies, exists)

    def _end_removals(self, bodies: Iterable[bytes], exists: Is) -> None:
        for body in bodies:
            message = self.messages[body]
            message.removals -= 1
            message.exists = exists if message.exists is Is.SURE else message.exists

    def asks_purge(self, queue: str, bodies: Iterable[bytes]) -> None:
        """`bodies` are those of the messages that are published by now."""
        self.purging[queue] += 1
        self._asks_to_remove_all(queue, bodies)

    def ends_purge(self, queue: str, gone: Iterable[bytes], doubtful: Iterable[bytes]) -> None:
        self.purging[queue] -= 1
        self._end_removals(gone, Is.NOT)
        self._end_removals(doubtful, Is.MAYBE)

    def keeps(self, content: bytes) -> None:
        """A file that nobody was promised anything of; nothing may destroy it."""
        self.kept.add(content)

    def breaks(self, text: str) -> None:
        self.broken.append(text)
