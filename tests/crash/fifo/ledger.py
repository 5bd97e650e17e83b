"""What clients of FIFO queues were promised. A client sends to a group only when its message before
is answered, so each group has one order; bodies are unique, and stand for deduplication ids."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from typing import NamedTuple


class FifoPromise(NamedTuple):
    """One message. `message_id` is None until its sender was answered. `lease` is that of an
    answered receive which lasts and which nobody has asked to end, 0 for none. What is forgotten
    can be sent again."""

    body: str
    message_id: str | None
    lease: int
    may_be_gone: bool
    is_gone: bool
    may_be_forgotten: bool
    is_forgotten: bool


class FifoPromises(NamedTuple):
    """The messages of each group, in their order."""

    groups: tuple[tuple[str, tuple[FifoPromise, ...]], ...]


@dataclass
class _Known:
    message_id: str | None = None
    lease: int = 0
    may_be_gone: bool = False
    is_gone: bool = False
    may_be_forgotten: bool = False
    is_forgotten: bool = False


@dataclass
class FifoLedger:
    """Takes what is said on the disk, in its order."""

    groups: dict[str, dict[str, _Known]] = field(default_factory=dict)
    is_purging: bool = False
    is_forgetting: bool = False

    def freeze(self) -> FifoPromises:
        """Return what holds from now on."""
        return FifoPromises(
            tuple(
                (group, tuple(FifoPromise(body, *astuple(each)) for body, each in known.items()))
                for group, known in self.groups.items()
            )
        )

    def _find(self, body: str) -> _Known:
        return next(known[body] for known in self.groups.values() if body in known)

    def all(self) -> dict[str, _Known]:
        """Return every message by its body."""
        return {body: each for known in self.groups.values() for body, each in known.items()}

    def asks_send(self, group: str, body: str) -> None:
        """What is sent while a purge is under way may be before it or behind it."""
        known = _Known(may_be_gone=self.is_purging, may_be_forgotten=self.is_forgetting)
        self.groups.setdefault(group, {}).setdefault(body, known)

    def is_sent(self, body: str, message_id: str) -> None:
        self._find(body).message_id = message_id

    def is_received(self, body: str, lease: int) -> None:
        """`lease` is 0 if it may be over at a restart."""
        self._find(body).lease = lease

    def asks_end(self, body: str) -> None:
        """Note that its lease may end."""
        self._find(body).lease = 0

    def asks_remove(self, body: str) -> None:
        known = self._find(body)
        known.lease, known.may_be_gone = 0, True

    def is_removed(self, body: str) -> None:
        self._find(body).is_gone = True

    def asks_purge(self, *, forgets: bool) -> None:
        """`forgets` says whether that is `PurgeQueue`, or a purge over HTTP."""
        self.is_purging, self.is_forgetting = True, forgets
        for known in self.all().values():
            known.lease, known.may_be_gone = 0, True
            known.may_be_forgotten |= forgets

    def is_purged(self, bodies: tuple[str, ...]) -> None:
        """Note what had been sent when that was asked."""
        for body in bodies:
            known = self._find(body)
            known.is_gone, known.is_forgotten = True, known.is_forgotten or self.is_forgetting
        self.is_purging = self.is_forgetting = False
