"""What clients know of one message, and may rely on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.crash.enumeration.clock import RESTART_NS
from tests.crash.enumeration.promises import ANY_LEASE, Is, Promise


class GivenLease(NamedTuple):
    """What a receiver was told, and not before when."""

    number: int
    begun_ns: int
    visible_ns: int


@dataclass
class LedgerMessage:
    """What is known of one message. Its lease is over at `hidden_until_ns`."""

    body: bytes
    queue: str
    message_id: str | None = None
    exists: Is = Is.MAYBE
    hidden: Is = Is.NOT
    hidden_until_ns: int = 0
    lease: int = 0
    count: int = 0
    removals: int = 0
    takings: int = 0
    asked_until_ns: int = 0
    moving: Counter[str] = field(default_factory=Counter)
    """The queues to which a client moves it, or may have moved it."""
    is_published: bool = False
    is_ordered: bool = True
    """Whether it comes before what is published later, and after `before`."""
    before: frozenset[bytes] = frozenset()
    is_doubtful: bool = False
    """Its queue was deleted or purged while it was being published."""

    @property
    def may_be_part(self) -> bool:
        return self.exists is Is.MAYBE and not self.removals and not self.is_doubtful

    @property
    def may_be_handed_over(self) -> bool:
        return self.exists is not Is.NOT and not self.is_doubtful and self.removals <= 1

    def promise(self, receives: int, max_receives: int) -> Promise:
        """Return the promise. `receives` is how many receives under way may take the message."""
        hidden, until, lease = self.hidden, self.hidden_until_ns, self.lease
        exists = Is.MAYBE if self.exists is Is.SURE and self.removals else self.exists
        at_most = until
        if self.takings:
            # Under the one lease or the other.
            hidden = Is.SURE if hidden is Is.SURE else Is.MAYBE
            until, at_most = sorted([until, self.asked_until_ns])
            lease = ANY_LEASE
        if self.moving and hidden is Is.SURE:
            hidden = Is.MAYBE
        if hidden is not Is.MAYBE and until <= RESTART_NS and (self.takings or receives):
            hidden = Is.MAYBE
        places = self._places(receives, max_receives)
        return Promise(
            self.body, self.message_id, places, exists, hidden, until, at_most, lease, self.before
        )

    def _places(self, receives: int, max_receives: int) -> frozenset[str]:
        """A message that was received `max_receives` times goes to the dead letters."""
        here, dead = self.queue, f"{self.queue}.dead"
        if not max_receives or self.count + receives < max_receives:
            return frozenset({here, *self.moving})
        is_sure = self.count >= max_receives and self.hidden is Is.SURE
        return frozenset({dead} if is_sure else {here, dead})
